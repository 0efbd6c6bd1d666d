"""How the pages of pimetrics look: in light and dark, without a script or a file to load."""

from __future__ import annotations

from typing import Final

LOOK: Final = """
:root {
  color-scheme: light dark;
  --ground: #f6f5f2; --sheet: #fff; --ink: #1d1f23; --dim: #62666e; --line: #e2e0da; --mark: #2f6f5e; --warn: #9a5b00;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ground: #14161a; --sheet: #1c1f25; --ink: #e6e7ea; --dim: #9a9fa9; --line: #2d3139; --mark: #6cc3ab;
    --warn: #e3aa55;
  }
}
* { box-sizing: border-box; }
body {
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", sans-serif; color: var(--ink); background: var(--ground);
  max-width: 60rem; margin: 0 auto; padding: 2rem 1.25rem 3rem;
}
a { color: var(--mark); text-underline-offset: .2em; }
code { font: .9em ui-monospace, "SF Mono", Menlo, Consolas, monospace; }
.dim, dt, footer { color: var(--dim); }
h1 { font-size: 1.6rem; letter-spacing: -.02em; margin: 0; }
h2 { font-size: 1rem; margin: 0 0 .5rem; }
section, .note {
  background: var(--sheet); border: 1px solid var(--line); border-radius: .6rem; padding: .9rem 1.1rem;
}
section { margin: 1rem 0; }
table { border-collapse: collapse; width: 100%; }
th { font-size: .85rem; font-weight: 400; color: var(--dim); }
bdi { white-space: pre-wrap; }
footer { font-size: .85rem; margin-top: 1.5rem; }
""".strip()
"""CSS that all pages begin with."""
