"""An archive as pi leaves it on a disk, of any size, with exact totals: python -m tests.bench.archive SIZE FOLDER.

Session files of 1.6, one a session, in the folders of some projects, the texts as long as those of real work. Every
twelfth is a fork: it begins with a verbatim copy of the first entries of an earlier session, which count once. Same
arguments, same bytes.
"""

from __future__ import annotations

import json
import sys
from collections import deque
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Final, NamedTuple

from tests.bench.generate import Generator, parse_size

if TYPE_CHECKING:
    from tests.bench.totals import Totals

PROJECTS: Final = tuple(f"shop-{n}" for n in range(1, 21))
_FORKED: Final = 12
_REMEMBERED: Final = 50
"""A fork has one of so many latest sessions for its parent."""


class Archive(NamedTuple):
    """What was written.

    Attributes:
        totals: What a reader must find, copies counted once; its `bytes` are without them.
        bytes: Size of all files.
        files: How many, forks included.
        forks: How many of them are forks.
    """

    totals: Totals
    bytes: int
    files: int
    forks: int


def write_archive(folder: Path, size: int, *, seed: int = 1) -> Archive:
    """Write files into `folder` until they have `size` bytes."""
    generator = Generator("session", seed=seed, long=True)
    rnd = Random(f"archive {seed}")
    latest: deque[tuple[Path, list[bytes]]] = deque(maxlen=_REMEMBERED)
    written = files = forks = 0
    for project in PROJECTS:
        _folder(folder, project).mkdir(parents=True)
    while written < size:
        first, *entries = b"".join(generator.session()).splitlines(keepends=True)
        header = json.loads(first)
        project = rnd.choice(PROJECTS)
        header["cwd"] = f"/home/dev/{project}"
        if files % _FORKED == _FORKED - 1:
            parent, copied = rnd.choice(latest)
            copied = copied[: rnd.randrange(3, len(copied))]
            header["parentSession"] = str(Path("/home/dev/.pi/agent/sessions", parent.relative_to(folder)))
            tip = json.loads(copied[-1])["id"].encode()
            entries[0] = entries[0].replace(b'"parentId":null', b'"parentId":"%s"' % tip, 1)
            entries = copied + entries
            forks += 1
        moment = header["timestamp"].replace(":", "-").replace(".", "-")
        path = _folder(folder, project) / f"{moment}_{header['id']}.jsonl"
        lines = [json.dumps(header, separators=(",", ":")).encode() + b"\n", *entries]
        path.write_bytes(b"".join(lines))
        latest.append((path, entries))
        written += path.stat().st_size
        files += 1
    return Archive(generator.totals, written, files, forks)


def _folder(archive: Path, project: str) -> Path:
    return archive / f"--home-dev-{project}--"


def main() -> None:
    """Write one, and its totals to standard output."""
    made = write_archive(Path(sys.argv[2]), parse_size(sys.argv[1]))
    told = {"bytes": made.bytes, "files": made.files, "forks": made.forks, "totals": made.totals.as_json()}
    json.dump(told, sys.stdout, indent=1)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
