"""Shipping: files to a receiver in this process, over a wire that loses requests and answers."""

from __future__ import annotations

import gzip
import json
import os
import random
import stat
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from pimetrics import delivery
from pimetrics.errors import SourceError, WrongUseError
from pimetrics.shipping.beside import Beside
from pimetrics.shipping.client import Answer, UnreachableError
from pimetrics.shipping.memory import Memory
from pimetrics.shipping.shipper import Pauses, RefusedError, Shipper, TryLaterError
from pimetrics.shipping.spool import Spooled
from pimetrics.sinks.inbox import Inbox
from pimetrics.web.receive import Receiver

HEADER = b'{"type":"session","id":"s"}\n'
LINES = HEADER + b'{"type":"agent_start"}\n' * 200


class Receiving:
    """A receiver in this process."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.inbox = Inbox(folder, ("team",), keep_free=0)
        self.answers: Counter[str] = Counter()
        self.receiver = Receiver(self.inbox, count=lambda answer, _size: self.answers.update([answer]), **options)
        self.web = TestClient(Starlette(routes=self.receiver.routes))

    @property
    def files(self) -> list[bytes]:
        return sorted(path.read_bytes() for path in self.inbox.folder.rglob("*.jsonl"))

    @property
    def complete(self) -> int:
        return len(list(self.inbox.folder.rglob("*.over")))


class Wire:
    """Stands in for the client: the way to one of several receivers, the next one after each hang-up."""

    def __init__(self, *receivers: Receiving) -> None:
        self.receivers = list(receivers)
        self.turn = 0
        self.asked: list[str] = []
        self.fault: Callable[[int, str], str] = lambda _n, _method: ""
        self.instead: Answer | None = None

    def request(self, method: str, path: str, headers: Mapping[str, str], body: bytes | None = None) -> Answer:
        self.asked.append(method)
        fault = self.fault(len(self.asked), method)
        if fault == "request":
            raise UnreachableError("Connection refused")
        if self.instead is not None:
            return self.instead
        web = self.receivers[self.turn % len(self.receivers)].web
        got = web.request(method, path, headers=dict(headers), content=body)
        if fault == "answer":
            raise UnreachableError("no answer in time")
        return Answer(got.status_code, {name.lower(): value for name, value in got.headers.items()}, got.content)

    def close(self) -> None:
        self.turn += 1


class Machine:
    """One machine: a recording, a memory, a shipper."""

    def __init__(self, folder: Path, wire: Wire, labels: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self.folder.mkdir(exist_ok=True)
        self.path = folder / "run.jsonl"
        self.over = False
        self.wire = wire
        self.labels = labels or {}
        self.begin()

    def begin(self) -> None:
        """Start anew, as after a kill."""
        memory = Memory("http://collector", self.folder / "memory")
        self.shipper = Shipper(self.wire, memory, labels=self.labels, is_over=lambda _path: self.over)  # type: ignore[arg-type]

    def write(self, data: bytes) -> None:
        with self.path.open("ab") as out:
            out.write(data)

    def ship(self) -> bool:
        return self.shipper.ship(self.path)


@pytest.fixture
def there(tmp_path: Path) -> Iterator[Receiving]:
    made = Receiving(tmp_path / "inbox")
    yield made
    made.inbox.close()


@pytest.fixture
def machine(tmp_path: Path, there: Receiving) -> Machine:
    return Machine(tmp_path / "machine", Wire(there))


def test_a_file_is_delivered_as_it_grows(there: Receiving, machine: Machine) -> None:
    """Whole lines only, each once; when nothing is new nobody is asked."""
    machine.write(LINES[:100])
    assert machine.ship()
    assert there.files == [LINES[: LINES.rfind(b"\n", 0, 100) + 1]]
    machine.write(LINES[100:])
    assert machine.ship()
    assert there.files == [LINES]
    asked = len(machine.wire.asked)
    assert machine.ship()
    assert len(machine.wire.asked) == asked


def test_the_end_is_told_with_a_torn_last_line(there: Receiving, machine: Machine) -> None:
    """Once its writer is gone, all of a recording is delivered and the receiver knows that it is complete."""
    machine.write(LINES + b'{"torn')
    machine.ship()
    assert (there.files, there.complete) == ([LINES], 0)
    machine.over = True
    assert machine.ship()
    assert (there.files, there.complete) == ([LINES + b'{"torn'], 1)
    asked = len(machine.wire.asked)
    machine.begin()
    assert machine.ship()
    assert len(machine.wire.asked) == asked


def test_the_end_is_told_when_everything_was_there_before(there: Receiving, machine: Machine) -> None:
    """The end of pi brings no bytes, and is delivered all the same."""
    machine.write(LINES)
    machine.ship()
    machine.over = True
    assert machine.ship()
    assert (there.files, there.complete) == ([LINES], 1)


def test_nothing_is_no_stream(there: Receiving, machine: Machine) -> None:
    """A file that is gone, empty or has no whole line yet has nothing to deliver."""
    assert machine.ship()
    machine.write(b"")
    assert machine.ship()
    machine.write(b'{"type":')
    assert machine.ship()
    assert there.files == []
    machine.over = True
    assert machine.ship()
    assert there.files == [b'{"type":']


@pytest.mark.parametrize("lost", ["request", "answer"])
def test_what_is_lost_on_the_way_is_sent_again_and_there_once(there: Receiving, machine: Machine, lost: str) -> None:
    """Requests or answers get lost at random, the shipper is killed after each: the file arrives, whole and once."""
    rnd = random.Random(5)
    machine.wire.fault = lambda _n, _method: lost if rnd.random() < 0.5 else ""
    for n in range(0, len(LINES), 500):
        machine.write(LINES[n : n + 500])
        for _ in range(2):
            machine.begin()
            try:
                machine.ship()
            except TryLaterError as error:
                assert str(error).startswith("the receiver cannot be reached: ")  # noqa: PT017
    machine.wire.fault = lambda _n, _method: ""
    assert machine.ship()
    assert there.files == [LINES]


def test_a_lost_memory_costs_a_question_and_sends_nothing_twice(there: Receiving, machine: Machine) -> None:
    """The name of a stream comes from the file, so the receiver knows how far it is."""
    machine.write(LINES)
    machine.ship()
    for path in (machine.folder / "memory").rglob("*.json"):
        path.unlink()
    machine.begin()
    machine.write(HEADER)
    assert machine.ship()
    assert there.files == [LINES + HEADER]
    assert machine.shipper.delivered_bytes == len(HEADER)


def test_a_receiver_that_has_less_than_it_said_gets_the_rest_again(there: Receiving, machine: Machine) -> None:
    """A power cut there, a disk that was restored: what is still here is delivered from where it ends there."""
    machine.write(LINES)
    machine.ship()
    (path,) = there.inbox.folder.rglob("*.jsonl")
    path.write_bytes(LINES[:51])
    machine.write(HEADER)
    assert machine.ship()
    assert there.files == [LINES + HEADER]


@pytest.mark.parametrize("rewritten", [LINES.replace(b"start", b"other"), HEADER, LINES[:-23] + HEADER])
def test_a_file_that_was_rewritten_begins_another_stream(there: Receiving, machine: Machine, rewritten: bytes) -> None:
    """pi migrates session files in place: what was delivered stays, the new content goes under a name of its own."""
    machine.write(LINES)
    machine.ship()
    machine.path.write_bytes(rewritten)
    machine.begin()
    assert machine.ship()
    assert there.files == sorted([LINES, rewritten])
    machine.write(HEADER)
    assert machine.ship()
    assert there.files == sorted([LINES, rewritten + HEADER])


@pytest.mark.parametrize("ending", [".gz", ".zst"])
def test_a_compressed_recording_goes_on_where_the_plain_one_was(
    there: Receiving, machine: Machine, ending: str
) -> None:
    """Housekeeping compresses what is settled; it is the same stream under the same name."""
    import zstandard

    machine.write(LINES[:2300])
    machine.ship()
    pack = gzip.compress if ending == ".gz" else zstandard.ZstdCompressor().compress
    machine.path.unlink()
    machine.path = machine.path.with_name("run.jsonl" + ending)
    machine.path.write_bytes(pack(LINES))
    assert machine.ship()
    assert (there.files, there.complete) == ([LINES], 1)


def test_a_long_line_goes_in_one_piece(there: Receiving, machine: Machine) -> None:
    """A batch is as long as its line; lines before and after it come with theirs."""
    line = b'{"image":"' + b"A" * (3 * delivery.BATCH_BYTES) + b'"}\n'
    machine.write(LINES + line + LINES)
    assert machine.ship()
    assert there.files == [LINES + line + LINES]


def test_a_line_beyond_the_cap_is_said(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """What stands before it is delivered; the rest cannot be."""
    monkeypatch.setattr(delivery, "MAX_BODY_BYTES", 2 * delivery.BATCH_BYTES)
    machine.write(LINES + b"A" * (3 * delivery.BATCH_BYTES) + b"\n")
    with pytest.raises(RefusedError, match="a line that is too long"):
        machine.ship()


def test_labels_stay_with_a_stream(tmp_path: Path, there: Receiving) -> None:
    """A stream keeps those that it began with: others would be another stream."""
    machine = Machine(tmp_path / "machine", Wire(there), {"team": "cøre/x"})
    machine.write(LINES[:1000])
    machine.ship()
    machine.labels = {"team": "other"}
    machine.begin()
    machine.write(LINES[1000:])
    assert machine.ship()
    (path,) = there.inbox.folder.rglob("*.jsonl")
    assert path.read_bytes() == LINES
    assert there.inbox.labels_of(str(path)) == ("cøre/x", "", "")


# --- several receivers ------------------------------------------------------------------------------------------------


@pytest.fixture
def two(tmp_path: Path) -> Iterator[tuple[Receiving, Receiving]]:
    made = (Receiving(tmp_path / "inbox1"), Receiving(tmp_path / "inbox2"))
    yield made
    for each in made:
        each.inbox.close()


def test_everything_of_a_machine_goes_to_one_receiver(tmp_path: Path, two: tuple[Receiving, Receiving]) -> None:
    """Behind one address, each request to the next one: the machine belongs to the first that took something."""
    wire = Wire(*two)
    machine = Machine(tmp_path / "machine", wire)
    for name in range(6):
        machine.path = machine.folder / f"run{name}.jsonl"
        for part in (LINES[:1000], LINES[1000:]):
            machine.write(part)
            wire.turn += 1
            machine.begin()
            assert machine.ship()
    assert sorted(len(each.files) for each in two) == [0, 6]
    (other,) = (each for each in two if not each.files)
    assert other.answers["other_receiver"] > 0


def test_a_lost_answer_keeps_a_machine_with_its_receiver(tmp_path: Path, two: tuple[Receiving, Receiving]) -> None:
    """The first delivery is taken and its answer lost: only that receiver can tell, so only it is asked again."""
    wire = Wire(*two)
    machine = Machine(tmp_path / "machine", wire)
    machine.write(LINES)
    wire.fault = lambda _n, method: "answer" if method == "PATCH" else ""
    with pytest.raises(TryLaterError):
        machine.ship()
    wire.fault = lambda _n, _method: ""
    wire.turn += 1
    machine.begin()
    assert machine.ship()
    assert [each.files for each in two] == [[LINES], []]


def test_before_the_first_delivery_any_receiver_will_do(tmp_path: Path, two: tuple[Receiving, Receiving]) -> None:
    """Nothing was sent to the one that was met first and went away: the next attempt takes another."""
    wire = Wire(two[0])
    machine = Machine(tmp_path / "machine", wire)
    machine.write(LINES)
    wire.fault = lambda _n, method: "request" if method == "PATCH" else ""
    wire.receivers = [two[0]]
    wire.fault = lambda _n, method: "request" if method == "HEAD" else ""
    with pytest.raises(TryLaterError):
        machine.ship()
    machine.begin()
    wire.receivers = [two[1]]
    wire.fault = lambda _n, _method: ""
    assert machine.ship()
    assert [each.files for each in two] == [[], [LINES]]


def test_a_receiver_that_is_away_is_waited_for(tmp_path: Path, two: tuple[Receiving, Receiving]) -> None:
    """Others refuse what is not theirs; nothing is written there, and it goes on when the right one is back."""
    wire = Wire(two[0])
    machine = Machine(tmp_path / "machine", wire)
    machine.write(LINES[:1000])
    machine.ship()
    machine.write(LINES[1000:])
    wire.receivers = [two[1]]
    with pytest.raises(TryLaterError, match="that has the earlier deliveries of this machine does not answer"):
        machine.ship()
    wire.receivers = [two[1], two[0]]
    assert machine.ship()
    assert [each.files for each in two] == [[LINES], []]


# --- what a receiver may answer ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "says", "wait"),
    [
        (Answer(401, {}, b""), "does not accept the credentials", None),
        (Answer(429, {"retry-after": "7"}, b""), "come later (status 429)", 7.0),
        (Answer(503, {"retry-after": "soon"}, b""), "come later (status 503)", None),
        (Answer(507, {"retry-after": "30"}, b""), "come later (status 507)", 30.0),
        (Answer(404, {}, b"not found"), "no receiver answers at that address", None),
        (Answer(200, {}, b"<html>welcome</html>"), "no receiver answers at that address", None),
        (Answer(200, {}, b'{"receiver": "../../x"}'), "no receiver answers at that address", None),
        (Answer(200, {}, b"[]"), "no receiver answers at that address", None),
    ],
)  # fmt: skip
def test_an_answer_that_may_change_is_tried_again(
    machine: Machine, answer: Answer, says: str, wait: float | None
) -> None:
    """Wrong credentials, a busy receiver, a captive portal: said in words, and nothing is forgotten."""
    machine.write(LINES)
    machine.wire.instead = answer
    with pytest.raises(TryLaterError) as caught:
        machine.ship()
    assert says in str(caught.value)
    assert caught.value.wait == wait
    machine.wire.instead = None
    assert machine.ship()


def test_a_refusal_for_good_is_said(there: Receiving, machine: Machine) -> None:
    """A delivery that is not taken as it is will not be taken the next time."""
    machine.write(LINES)
    machine.ship()
    machine.write(HEADER)
    machine.wire.instead = Answer(413, {}, b"")
    with pytest.raises(RefusedError, match="status 413"):
        machine.ship()


def test_a_receiver_that_agrees_to_nothing_is_left(machine: Machine) -> None:
    """One that answers every delivery with a gap is no reason to go on for ever."""
    machine.write(LINES)
    machine.ship()
    machine.write(HEADER)
    answers = iter(range(10**6))

    class Odd(Wire):
        def request(self, method: str, *_given: Any) -> Answer:  # type: ignore[override]
            next(answers)
            return Answer(204 if method == "HEAD" else 409, {"upload-offset": "0"}, b"")

    machine.wire = Odd()
    machine.begin()
    with pytest.raises(TryLaterError, match="do not agree"):
        machine.ship()
    assert next(answers) < 100


def test_pauses_grow_differ_and_respect_what_is_asked() -> None:
    """From half a second to a minute, never the same for all, at least what the receiver says, within reason."""
    shortest, longest = Pauses(lambda: 0.0), Pauses(lambda: 1.0)
    low, high = [shortest.next() for _ in range(12)], [longest.next() for _ in range(12)]
    assert low[0] == 0.25
    assert high[0] == 0.5
    assert low == sorted(low)
    assert (low[-1], high[-1]) == (30.0, 60.0)
    longest.worked()
    assert longest.next() == 0.5
    assert shortest.next(asked=100.0) >= 100
    assert shortest.next(asked=10**6) <= 300 + 60


# --- memory and spool -------------------------------------------------------------------------------------------------


def test_the_memory_is_its_owners_alone(machine: Machine) -> None:
    """Files 0600, folders 0700: they name what somebody works on."""
    machine.write(LINES)
    machine.ship()
    found = list((machine.folder / "memory").rglob("*"))
    assert {path.name for path in found if path.is_file()} > {"receiver"}
    for path in found:
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600)


@pytest.mark.parametrize("garbage", [b"", b"{", b"[1]", b'{"path": 1, "colour": 2}', b"\xff"])
def test_a_damaged_memory_is_begun_anew(there: Receiving, machine: Machine, garbage: bytes) -> None:
    """What a crash left behind costs a question."""
    machine.write(LINES)
    machine.ship()
    (file,) = (machine.folder / "memory").rglob("*.json")
    file.write_bytes(garbage)
    machine.begin()
    assert machine.ship()
    assert there.files == [LINES]
    assert json.loads(file.read_bytes())["offset"] == len(LINES)


def test_two_shippers_do_not_send_the_same_file(tmp_path: Path) -> None:
    """One has it, the other leaves it; afterwards it is free."""
    memory, other = Memory("u", tmp_path), Memory("u", tmp_path)
    with memory.of(tmp_path / "a.jsonl") as mine, other.of(tmp_path / "a.jsonl.gz") as theirs:
        assert mine is not None
        assert theirs is None
    with other.of(tmp_path / "a.jsonl") as theirs:
        assert theirs is not None


def test_the_first_receiver_stays(tmp_path: Path) -> None:
    """Of two processes that meet different receivers at the same time, one wins for both."""
    memory, other = Memory("u", tmp_path), Memory("u", tmp_path)
    assert (memory.belong("a"), other.belong("b"), Memory("u", tmp_path).receiver) == ("a", "a", "a")
    assert Memory("another", tmp_path).receiver is None


def test_without_a_place_for_the_memory_it_works_all_the_same(tmp_path: Path, there: Receiving) -> None:
    """A container without a writable home delivers, and says that it will not remember."""
    (tmp_path / "machine").mkdir()
    (tmp_path / "machine" / "memory").touch()
    machine = Machine(tmp_path / "machine", Wire(there))
    machine.write(LINES)
    assert machine.ship()
    assert there.files == [LINES]
    assert not machine.shipper._memory.writable


def test_a_file_that_cannot_be_read_is_an_error_in_one_sentence(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says which, why, and what to do."""
    machine.write(LINES)

    def closed(*_given: Any) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pimetrics.shipping.spool.Spooled.stream", closed)
    with pytest.raises(SourceError, match=r"run\.jsonl cannot be read \(Permission denied\); check its permissions"):
        machine.ship()


def test_a_clock_that_is_wrong_makes_no_file_old(
    machine: Machine, there: Receiving, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine whose clock says 1970 is at work all the same: to old files followers take that nothing is added."""
    machine.write(LINES)
    wrong = 1000.0
    os.utime(machine.path, (wrong, wrong))
    monkeypatch.setattr("pimetrics.shipping.spool.time", SimpleNamespace(time=lambda: wrong + 30))
    machine.ship()
    monkeypatch.undo()
    (path,) = there.inbox.folder.rglob("*.jsonl")
    assert path.stat().st_mtime == pytest.approx(time.time() - 30, abs=20)


@pytest.mark.parametrize("name", ["credentials", "file"])
def test_beside_one_file_that_cannot_be_read_the_others_are_delivered(
    tmp_path: Path, there: Receiving, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """A disk that fails under a recording of last week, a token that is being replaced: this run arrives."""
    machine = Machine(tmp_path / "machine", Wire(there))
    failed = [0]
    if name == "credentials":
        request = machine.wire.request

        def replaced(*given: Any) -> Answer:
            failed[0] += 1
            if failed[0] == 2:
                raise WrongUseError("the credentials cannot be read")
            return request(*given)

        machine.wire.request = replaced  # type: ignore[method-assign]
    else:
        old = machine.folder / "20261101T000000.000Z_00000000.jsonl"
        old.write_bytes(HEADER)
        opened = Spooled.__init__

        def failing(self: Spooled, path: Path, *, over: bool) -> None:
            if path == old:
                failed[0] += 1
                raise OSError(5, "Input/output error")
            opened(self, path, over=over)

        monkeypatch.setattr(Spooled, "__init__", failing)
    machine.write(LINES)
    beside = Beside(lambda: machine.shipper, machine.path, every=0.01)
    deadline = time.monotonic() + 20
    while not there.files or not failed[0]:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    machine.write(b"{}\n")
    assert beside.finish(20)
    assert there.files == [LINES + b"{}\n"]
    assert failed[0]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_what_nobody_foresaw_is_no_delivery(machine: Machine) -> None:
    """Whatever ends the delivery beside pi, nobody is told that it is all there."""

    def broken(*_given: Any) -> Answer:
        raise RuntimeError("a fault in here")

    machine.wire.request = broken  # type: ignore[method-assign]
    machine.write(LINES)
    beside = Beside(lambda: machine.shipper, machine.path)
    assert not beside.finish(20)
    beside._thread.join()  # it complains at its very end, which is to be here


def test_spooled_files_are_closed(tmp_path: Path) -> None:
    """No descriptor stays, whatever the file."""
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress(LINES))
    before = len(os.listdir("/dev/fd"))
    for over in (True, False):
        with Spooled(path, over=over) as spooled:
            assert spooled.batch(0).data == LINES
    assert len(os.listdir("/dev/fd")) == before
