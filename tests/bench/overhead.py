"""What `record` adds to a run of the real pi. `PIMETRICS_LIVE=1 python -m tests.bench.overhead [ROUNDS] [SECONDS]`.

Pi runs against a scripted model, with a tool call that takes SECONDS (10) and an answer of 48 KB in 2,000 pieces: alone,
under `record`, and into a pipe through it, in turn, ROUNDS (5) times. Reports wall and processor time of each (medians),
and what the two forms add to the wall time of the run alone.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from tests.live.modelserver import Answer, ModelServer
from tests.live.parts import pi_program
from tests.live.pi import Home

RECORD = [sys.executable, "-m", "pimetrics", "record"]
ANSWER = "In the shop. " * 3700


def main() -> None:
    """Measure and print."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 10.0
    found: dict[str, list[tuple[float, float]]] = {"alone": [], "record -- pi": [], "pi | record": []}
    with tempfile.TemporaryDirectory() as folder, ModelServer() as model:
        home = Home(Path(folder, "home"), pi_program(), model.url)
        copies = ["-o", f"{folder}/recordings"]
        for _ in range(rounds):
            for name, times in found.items():
                calls = (("bash", {"command": f"sleep {seconds}"}),)
                model.script([Answer("Wait.", calls), Answer(ANSWER)])
                pi = home.argv("json", "hello")
                argv = [*RECORD, *copies, "--", *pi] if name == "record -- pi" else pi
                times.append(_run(home, argv, [*RECORD, *copies] if name == "pi | record" else None))
                assert model.left() == {"turns": 0, "summaries": 0, "unexpected": 0}
    alone = median(wall for wall, _ in found["alone"])
    for name, times in found.items():
        wall, cpu = (median(each) for each in zip(*times, strict=True))
        spread = f"{min(each for each, _ in times):.3f} to {max(each for each, _ in times):.3f}"
        print(f"{name}: {wall:.3f} s ({spread}), {cpu:.2f} s of processor time, {wall / alone - 1:+.2%}")


def _run(home: Home, argv: list[str], through: list[str] | None) -> tuple[float, float]:
    """Return wall and processor time of a command and what it is piped through, seconds."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    pi = subprocess.Popen(
        argv,
        cwd=home.project,
        env=home.env(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE if through else subprocess.DEVNULL,
    )
    if through is not None:
        subprocess.run(through, stdin=pi.stdout, stdout=subprocess.DEVNULL, env=home.env(), check=True)
    assert pi.wait() == 0
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    main()
