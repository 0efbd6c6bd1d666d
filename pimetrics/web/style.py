"""How the page looks: in light and dark, on a phone and on a wide screen, without a script or a file to load."""

from __future__ import annotations

from typing import Final

STYLE: Final = """
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
header { display: flex; flex-wrap: wrap; align-items: baseline; gap: .25rem 1rem; margin-bottom: 1.5rem; }
h1 { font-size: 1.6rem; letter-spacing: -.02em; margin: 0; }
h2 { font-size: 1rem; margin: 0 0 .5rem; }
nav { margin-left: auto; display: flex; gap: 1rem; }
.state { margin: 0; color: var(--mark); font-size: .9rem; }
.state::before { content: "\\25CF"; margin-right: .4em; }
.behind { color: var(--warn); }
.tiles {
  display: grid; grid-template-columns: repeat(auto-fit, minmax(12rem, 1fr)); gap: 1rem; margin: 0 0 1rem;
}
.tiles > div, section, .note {
  background: var(--sheet); border: 1px solid var(--line); border-radius: .6rem; padding: .9rem 1.1rem;
}
.note { margin: 0 0 1rem; }
section { margin: 1rem 0; }
dt { font-size: .85rem; }
dd { margin: 0; font-size: .8rem; color: var(--dim); }
dt + dd { font-size: 1.65rem; line-height: 1.3; color: var(--ink); font-variant-numeric: tabular-nums; }
table { border-collapse: collapse; width: 100%; }
th { font-size: .85rem; font-weight: 400; color: var(--dim); }
th, td { text-align: left; vertical-align: top; padding: .4rem 0 .4rem 1.25rem; border-top: 1px solid var(--line); }
thead th, table:not(:has(thead)) tr:first-child td { border-top: 0; }
th:first-child, td:first-child { padding-left: 0; overflow-wrap: anywhere; width: 99%; }
th + th, td + td { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
bdi { white-space: pre-wrap; }
.bar { display: block; height: 3px; min-width: 2px; margin-top: .2rem; border-radius: 2px; background: var(--mark); }
footer { font-size: .85rem; margin-top: 1.5rem; }
@media (max-width: 30rem) {
  body { padding: 1rem .75rem 2rem; }
  nav { margin-left: 0; width: 100%; }
  .tiles { grid-template-columns: 1fr 1fr; gap: .6rem; }
  dt + dd { font-size: 1.25rem; }
  th, td { padding-left: .75rem; }
}
""".strip()
