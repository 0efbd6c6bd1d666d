"""Write the dashboards' JSON from `source/`.

`python grafana/dashboards/build.py` writes them; with `--check` it exits with 1 where a file is not in step with
its source.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from source import health, models, overview, retries, tools

HERE = Path(__file__).parent
DASHBOARDS = {
    "overview": overview.build, "tools": tools.build, "models": models.build, "retries": retries.build,
    "health": health.build,
}  # fmt: skip


def main() -> int:
    """Write or check every dashboard; 1 where a check fails."""
    check = sys.argv[1:] == ["--check"]
    stale = 0
    for name, build in DASHBOARDS.items():
        path = HERE / f"{name}.json"
        text = json.dumps(build(), indent=2, ensure_ascii=False) + "\n"
        if check and (not path.exists() or path.read_text(encoding="utf-8") != text):
            stale += 1
            print(f"{path.name} is not in step: run python grafana/dashboards/build.py", file=sys.stderr)
        elif not check:
            path.write_text(text, encoding="utf-8")
    return 1 if stale else 0


if __name__ == "__main__":
    raise SystemExit(main())
