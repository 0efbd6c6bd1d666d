"""How the page at / looks: on a phone and on a wide screen."""

from __future__ import annotations

from typing import Final

from pimetrics.look import LOOK

STYLE: Final = (
    LOOK
    + """
header { display: flex; flex-wrap: wrap; align-items: baseline; gap: .25rem 1rem; margin-bottom: 1.5rem; }
nav { margin-left: auto; display: flex; gap: 1rem; }
.state { margin: 0; color: var(--mark); font-size: .9rem; }
.state::before { content: "\\25CF"; margin-right: .4em; }
.behind { color: var(--warn); }
.tiles {
  display: grid; grid-template-columns: repeat(auto-fit, minmax(12rem, 1fr)); gap: 1rem; margin: 0 0 1rem;
}
.tiles > div {
  background: var(--sheet); border: 1px solid var(--line); border-radius: .6rem; padding: .9rem 1.1rem;
}
.note { margin: 0 0 1rem; }
dt { font-size: .85rem; }
dd { margin: 0; font-size: .8rem; color: var(--dim); }
dt + dd { font-size: 1.65rem; line-height: 1.3; color: var(--ink); font-variant-numeric: tabular-nums; }
th, td { text-align: left; vertical-align: top; padding: .4rem 0 .4rem 1.25rem; border-top: 1px solid var(--line); }
thead th, table:not(:has(thead)) tr:first-child td { border-top: 0; }
th:first-child, td:first-child { padding-left: 0; overflow-wrap: anywhere; width: 99%; }
th + th, td + td { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.bar { display: block; height: 3px; min-width: 2px; margin-top: .2rem; border-radius: 2px; background: var(--mark); }
@media (max-width: 30rem) {
  body { padding: 1rem .75rem 2rem; }
  nav { margin-left: 0; width: 100%; }
  .tiles { grid-template-columns: 1fr 1fr; gap: .6rem; }
  dt + dd { font-size: 1.25rem; }
  th, td { padding-left: .75rem; }
}
"""
)
