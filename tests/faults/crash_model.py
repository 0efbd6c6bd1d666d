"""A daemon against a model of it: random work, random faults, exact sums. `python -m tests.faults.crash_model STEPS [SEED]`.

Session files are appended to (also half a line), rotated, copied and cut, rewritten in place as pi does, packed, deleted;
the daemon is killed between any two lines of its code, restarted, its disk fills up, the clock jumps. The model knows
what was ever written whole. Whenever all is still, each counter and sum, as PromQL would add it up over all scrapes and
restarts, equals the model to the bit; in between nothing falls and nothing is more than was written.

What a follower cannot know it is not asked: before bytes are destroyed (cut, deleted) it is given time to read them.
"""

from __future__ import annotations

import gzip
import json
import os
import random
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

from pimetrics.ledger.sqlite import SqliteLedger
from tests.rig import Rig


class Killed(BaseException):
    """The daemon died at some line of its code."""


class _File:
    def __init__(self, path: Path, session: str) -> None:
        self.path = path
        self.session = session
        self.numbers: list[int] = []
        self.torn: bytes = b""  # what is missing of its last line


class Model:
    """Drives a daemon on a folder and checks it.

    Args:
        folder: An empty folder.
        seed: Of all that is random.
    """

    def __init__(self, folder: Path, seed: int) -> None:
        self.rnd = random.Random(seed)
        self.folder = folder / "followed"
        self.folder.mkdir()
        self.state = folder / "ledger.db"
        self.truth: Counter[str] = Counter()
        self.files: list[_File] = []
        self.made = 0
        self.full = False
        self.steps: Counter[str] = Counter()
        self.history: list[str] = []
        self.ledger: SqliteLedger | None = None
        self.rig = Rig(self.folder, open_ledger=self._open)
        self.running = True

    def _open(self) -> SqliteLedger:
        self.ledger = SqliteLedger(self.state)
        return self.ledger

    # --- what pi and others do to files -----------------------------------------------------------------------------

    def _line(self, number: int) -> bytes:
        spent = {"input": number % 97, "output": number % 13, "cacheRead": number % 7, "cacheWrite": 0}
        message = {
            "role": "assistant", "content": [], "provider": "p", "model": f"m{number % 3}", "stopReason": "stop",
            "timestamp": 1_794_000_000_000 + number, "durationMs": 10 + number % 5000,
            "usage": {**spent, "cost": {"total": (number % 1000) / 1e4}},
        }  # fmt: skip
        entry = {"type": "message", "id": f"{self.rnd.getrandbits(32):08x}", "parentId": None}
        return json.dumps({**entry, "timestamp": "2026-11-07T12:00:09.000Z", "message": message}).encode() + b"\n"

    def _count(self, number: int) -> None:
        self.truth["requests"] += 1
        self.truth["input"] += number % 97
        self.truth["output"] += number % 13
        self.truth["cost"] += round((number % 1000) / 1e4 * 10**12)
        self.truth["context"] += number % 97 + number % 7 if number % 97 or number % 13 or number % 7 else 0
        self.truth["duration"] += (10 + number % 5000) * 1000

    def _header(self, session: str) -> bytes:
        header = {"type": "session", "version": 3, "id": session, "timestamp": "2026-11-07T12:00:00.000Z", "cwd": "/d"}
        return json.dumps(header).encode() + b"\n"

    def _new(self, name: str | None = None) -> _File:
        self.made += 1
        file = _File(self.folder / (name or f"{self.made}.jsonl"), f"s{self.made}")
        file.path.write_bytes(self._header(file.session))
        self.files.append(file)
        return file

    def _some(self) -> _File:
        return self.rnd.choice(self.files) if self.files and self.rnd.random() < 0.9 else self._new()

    def append(self) -> None:
        file = self._some()
        with file.path.open("ab", buffering=0) as out:
            if file.torn:
                out.write(file.torn)
                file.torn = b""
                self._count(file.numbers[-1])
            for _ in range(self.rnd.randrange(1, 8)):
                self.made += 1
                file.numbers.append(self.made)
                out.write(self._line(self.made))
                self._count(self.made)

    def tear(self) -> None:
        file = self._some()
        if file.torn:
            return
        self.made += 1
        line = self._line(self.made)
        cut = self.rnd.randrange(1, len(line))
        with file.path.open("ab", buffering=0) as out:
            out.write(line[:cut])
        file.torn = line[cut:]
        file.numbers.append(self.made)

    def rotate(self) -> None:
        file = self._some()
        name = file.path.name
        self.made += 1
        file.path = file.path.rename(self.folder / f"{self.made}.old.jsonl")
        self._new(name)

    def rotate_away(self) -> None:
        """To a name that no folder is searched for, with lines that were not read yet."""
        file = self._some()
        self.settle()
        name = file.path.name
        self.append()
        self.made += 1
        file.path = file.path.rename(self.folder / f"{self.made}.old")
        self._new(name)
        self.settle()
        self.files.remove(file)  # after a restart nobody looks there

    def copy_and_cut(self) -> None:
        file = self._some()
        self.made += 1
        shutil.copy(file.path, self.folder / f"{self.made}.copy.jsonl")
        os.truncate(file.path, 0)
        self._forget_torn(file)
        file.numbers = []
        with file.path.open("ab", buffering=0) as out:
            out.write(self._header(file.session))

    def migrate(self) -> None:
        """The same messages with new ids, written over the old, as pi does with old sessions; then longer."""
        file = self._some()
        self.settle()
        self._forget_torn(file)
        data = self._header(file.session) + b"".join(self._line(number) for number in file.numbers)
        file.path.write_bytes(data)

    def refill(self) -> None:
        """Cut to nothing and filled beyond the old end with other messages."""
        file = self._some()
        self.settle()
        self._forget_torn(file)
        count = len(file.numbers) + 3
        file.numbers = []
        data = self._header(file.session)
        for _ in range(count):
            self.made += 1
            file.numbers.append(self.made)
            data += self._line(self.made)
            self._count(self.made)
        file.path.write_bytes(data)

    def delete(self) -> None:
        file = self._some()
        self.settle()
        file.path.unlink()
        self.files.remove(file)

    def pack(self) -> None:
        file = self._some()
        self.made += 1
        (self.folder / f"{self.made}.jsonl.gz").write_bytes(gzip.compress(file.path.read_bytes()))
        file.path.unlink()
        self.files.remove(file)

    @staticmethod
    def _forget_torn(file: _File) -> None:
        if file.torn:
            file.torn = b""
            file.numbers.pop()

    # --- what happens to the daemon ---------------------------------------------------------------------------------

    def poll(self) -> None:
        if self.running:
            self.rig.poll(self.rnd.randrange(1, 4))

    def kill(self) -> None:
        """Kill it at a random line of its code, or while it sleeps."""
        if not self.running:
            return
        left = self.rnd.randrange(1, 6000)

        def trace(frame: FrameType, event: str, _arg: Any) -> Any:
            nonlocal left
            if "/pimetrics/" not in frame.f_code.co_filename:
                return None
            if event == "line":
                left -= 1
                if left <= 0:
                    raise Killed
            return trace

        sys.settrace(trace)
        try:
            self.rig.monotonic += 3.0
            self.rig.daemon.step()
        except Killed:
            self.steps["killed inside"] += 1
        finally:
            sys.settrace(None)
        if self.rig.daemon._ledger is None and self.ledger is not None:
            self._release(self.ledger)
        self.rig.kill()
        self.running = self.full = False

    @staticmethod
    def _release(ledger: SqliteLedger) -> None:
        """What the kernel does for a process that died."""
        try:
            ledger.close()
        except OSError:
            return  # it had closed its lock already

    def start(self) -> None:
        if not self.running:
            self.rig.start()
            self.running = True

    def restart(self) -> None:
        if self.running:
            if self.full:
                self.room()
            self.rig.stop()
            self.running = False
        self.start()

    def fill_disk(self) -> None:
        if self.running and not self.full:
            assert self.ledger is not None
            db = self.ledger._db
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            db.execute(f"PRAGMA max_page_count = {db.execute('PRAGMA page_count').fetchone()[0]}")
            self.full = True

    def room(self) -> None:
        if self.running and self.full:
            assert self.ledger is not None
            self.ledger._db.execute("PRAGMA max_page_count = 1000000000")
            self.full = False

    def clock(self) -> None:
        self.rig.wall += self.rnd.choice((-7200.0, -1.0, 60.0, 3600.0, 7200.0))

    # --- checks -----------------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Give it time until all is still, then everything is equal."""
        self.start()
        self.room()
        for _ in range(3):
            self.rig.rest(31)
        found, want = self._found(), dict(self.truth)
        assert found == {name: want.get(name, 0) for name in found}, f"{found} is not {want}"
        assert self.rig.rejects == 0

    def check(self) -> None:
        """Nothing fell, nothing is more than was ever written."""
        assert self.rig.falls == [], self.rig.falls[:5]
        found = self._found()
        assert all(n <= self.truth[name] for name, n in found.items()), f"{found} is more than {self.truth}"

    def _found(self) -> dict[str, int]:
        summed = self.rig.increase

        def total(metric: str, token_type: str | None = None) -> int:
            return sum(n for (m, labels), n in summed.items() if m == metric and token_type in {None, labels[-1]})

        return {
            "requests": total("pi_requests_total"),
            "input": total("pi_tokens_total", "input"),
            "output": total("pi_tokens_total", "output"),
            "cost": total("pi_cost_usd_total"),
            "context": total("pi_request_context_tokens_sum"),
            "duration": total("pi_request_duration_seconds_sum"),
        }

    def run(self, steps: int) -> None:
        """Take random steps."""
        ways = {
            self.append: 30, self.tear: 8, self.poll: 30, self.rotate: 3, self.rotate_away: 1, self.copy_and_cut: 3, self.migrate: 2,
            self.refill: 2, self.delete: 2, self.pack: 2, self.kill: 8, self.start: 8, self.restart: 3,
            self.fill_disk: 2, self.room: 3, self.clock: 3, self.settle: 2,
        }  # fmt: skip
        for number in range(steps):
            step = self.rnd.choices(list(ways), list(ways.values()))[0]
            self.steps[step.__name__] += 1
            self.history.append(step.__name__)
            try:
                step()
                self.check()
            except AssertionError as error:
                raise AssertionError(f"step {number}, {' '.join(self.history[-12:])}: {error}") from error
        self.settle()
        self.rig.stop()


def main() -> None:
    steps = int(sys.argv[1])
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(10**6)
    print(f"seed {seed}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        model = Model(Path(folder), seed)
        model.run(steps)
    print(f"{steps} steps, {dict(model.truth)}, {dict(model.steps)}")


if __name__ == "__main__":
    main()
