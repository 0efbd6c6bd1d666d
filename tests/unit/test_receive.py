"""The HTTP side of a receiver: what is taken, and how everything else is refused."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from collections import Counter
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from pimetrics import delivery
from pimetrics.delivery import InboxFullError, digest_of, edges, fingerprint
from pimetrics.sinks.inbox import Inbox
from pimetrics.web import receive
from pimetrics.web.receive import Receiver

STREAM = "0123456789abcdef"
LINES = b'{"type":"agent_start"}\n' * 100
TOKEN = "a-token-of-the-tests"


class Rig:
    """A receiver in this process, and what it says of itself."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.inbox = Inbox(folder, ("team",), keep_free=0)
        self.answers: Counter[str] = Counter()
        self.taken = 0
        self.receiver = Receiver(self.inbox, count=self._count, **options)
        self.web = TestClient(Starlette(routes=self.receiver.routes))

    def _count(self, answer: str, size: int) -> None:
        self.answers[answer] += 1
        self.taken += size

    def send(
        self, data: bytes = LINES, offset: int = 0, *, packed: bytes | None = None, **changed: str | bytes | None
    ) -> Any:
        """Send a delivery; headers are changed by name, or left out with None."""
        body = gzip.compress(data) if packed is None else packed
        headers = {
            delivery.RECEIVER: self.inbox.receiver,
            delivery.OFFSET: str(offset),
            delivery.BEFORE: fingerprint(*(LINES[at : at + length] for at, length in edges(offset))),
            delivery.DIGEST: digest_of(sha256(body).digest()),
            "Content-Encoding": "gzip",
        } | {name.replace("_", "-"): value for name, value in changed.items()}
        given = {name: value for name, value in headers.items() if value is not None}
        return self.web.patch(f"/receive/{STREAM}", content=body, headers=given)

    @property
    def files(self) -> list[bytes]:
        return [path.read_bytes() for path in self.inbox.folder.rglob("*.jsonl")]


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    made = Rig(tmp_path / "inbox")
    yield made
    made.inbox.close()


def test_who_a_receiver_is(rig: Rig) -> None:
    """Its name and the labels that it takes."""
    assert rig.web.get("/receive").json() == {"receiver": rig.inbox.receiver, "labels": ["team"]}


def test_a_delivery_is_kept_and_acknowledged(rig: Rig) -> None:
    """Asked before and after, the receiver says how much is there; labels become the folder."""
    asked = {"headers": {delivery.RECEIVER: rig.inbox.receiver}}
    assert rig.web.head(f"/receive/{STREAM}", **asked).headers[delivery.OFFSET] == "0"
    answer = rig.send(LINES[:230])
    assert (answer.status_code, answer.headers[delivery.OFFSET]) == (200, "230")
    assert rig.send(LINES[230:], 230).headers[delivery.OFFSET] == str(len(LINES))
    head = rig.web.head(f"/receive/{STREAM}", **asked)
    assert (head.status_code, head.headers[delivery.OFFSET], head.headers["Cache-Control"]) == (
        204,
        str(len(LINES)),
        "no-store",
    )
    assert rig.files == [LINES]
    assert (rig.answers, rig.taken) == (Counter(taken=2, asked=2), len(LINES))


def test_a_label_is_taken_where_the_operator_allows_it(rig: Rig) -> None:
    """Percent-encoded in a header; one that is not allowed is left out."""
    rig.send(Pimetrics_Label_team="caf%C3%A9", Pimetrics_Label_host="h")
    (path,) = rig.inbox.folder.rglob("*.jsonl")
    assert path.parent.parent.name == "team=caf%C3%A9"
    assert rig.inbox.labels_of(str(path)) == ("café", "", "")


def test_a_delivery_told_again_is_answered_and_not_written(rig: Rig) -> None:
    """Replayed requests get the offset that was acknowledged."""
    for _ in range(3):
        assert rig.send().headers[delivery.OFFSET] == str(len(LINES))
    assert rig.files == [LINES]


def refusals() -> dict[str, tuple[dict[str, Any], int, str]]:
    torn = gzip.compress(LINES)[:-9]
    return {
        "no offset": ({delivery.OFFSET: None}, 400, "malformed"),
        "offset below zero": ({delivery.OFFSET: "-1"}, 400, "malformed"),
        "offset in other digits": ({delivery.OFFSET: "²".encode()}, 400, "malformed"),
        "offset without end": ({delivery.OFFSET: "9" * 400}, 400, "malformed"),
        "no fingerprint": ({delivery.BEFORE: None}, 400, "malformed"),
        "no digest": ({delivery.DIGEST: None}, 400, "malformed"),
        "wrong digest": ({delivery.DIGEST: digest_of(sha256(b"").digest())}, 400, "malformed"),
        "age that is none": ({delivery.AGE: "yesterday"}, 400, "malformed"),
        "age below zero": ({delivery.AGE: "-1"}, 400, "malformed"),
        "not compressed": ({"Content-Encoding": None, "packed": LINES}, 415, "malformed"),
        "other compression": ({"Content-Encoding": "br"}, 415, "malformed"),
        "no gzip": ({"packed": LINES}, 400, "malformed"),
        "torn gzip": ({"packed": torn}, 400, "malformed"),
        "two in one": ({"packed": gzip.compress(LINES) * 2}, 400, "malformed"),
        "something behind it": ({"packed": gzip.compress(LINES) + b"x"}, 400, "malformed"),
        "half a line": ({"data": LINES[:-3]}, 400, "malformed"),
        "no receiver named": ({delivery.RECEIVER: None}, 400, "malformed"),
        "another receiver": ({delivery.RECEIVER: "0" * 16}, 421, "other_receiver"),
        "a gap": ({"offset": 23}, 409, "gap"),
        "length beyond the cap": ({"Content-Length": "999999999999"}, 413, "too_large"),
    }


@pytest.mark.parametrize("name", refusals())
def test_what_is_wrong_is_refused_and_nothing_is_written(rig: Rig, name: str) -> None:
    """The right status, a reason that repeats nothing of the request, no file."""
    changed, status, answer = refusals()[name]
    got = rig.send(**changed)
    assert got.status_code == status
    assert rig.answers == {answer: 1}
    assert rig.files == []
    assert set(got.json()) == {"error"}
    assert str(rig.inbox.folder) not in got.text
    assert not list(rig.inbox.folder.rglob("*.jsonl"))


@pytest.mark.parametrize(
    "name",
    ["..%2f..%2fetc%2fpasswd", "../../etc/passwd", "%2e%2e", "a", "A" * 32, "0" * 65, "0123456789abcde/", "0" * 15 + ".", "0" * 16 + "%00", "%0a" + "0" * 16, "²" * 20],
)  # fmt: skip
def test_no_name_of_a_stream_leads_out_of_the_folder(rig: Rig, name: str) -> None:
    """Not found, whatever the method; nothing is written anywhere."""
    before = sorted(rig.inbox.folder.parent.rglob("*"))
    for method in ("HEAD", "PATCH"):
        headers = {delivery.RECEIVER: rig.inbox.receiver}
        assert rig.web.request(method, f"/receive/{name}", headers=headers).status_code == 404
    assert sorted(rig.inbox.folder.parent.rglob("*")) == before


@pytest.mark.parametrize("method", ["GET", "PUT", "POST", "DELETE", "OPTIONS"])
def test_other_methods_are_refused(rig: Rig, method: str) -> None:
    """Nothing can be read back or deleted."""
    rig.send()
    assert rig.web.request(method, f"/receive/{STREAM}").status_code == 405
    assert rig.files == [LINES]


def test_other_content_is_refused_and_told_from_a_gap(rig: Rig) -> None:
    """Only a gap says where to go on."""
    rig.send()
    got = rig.send(LINES.replace(b"start", b"stops"))
    assert (got.status_code, delivery.OFFSET in got.headers) == (409, False)
    gap = rig.send(b"{}\n", 23 * 200)
    assert (gap.status_code, gap.headers[delivery.OFFSET]) == (409, str(len(LINES)))
    assert rig.files == [LINES]


def test_a_bomb_is_refused_before_it_is_unpacked(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cap is on what comes out, however little goes in."""
    monkeypatch.setattr(delivery, "MAX_BODY_BYTES", 1 << 20)
    got = rig.send(b" " * (50 << 20) + b"\n")
    assert (got.status_code, rig.answers, rig.files) == (413, {"too_large": 1}, [])


def test_a_bomb_leaves_the_ledger_its_room(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is unpacked onto the disk stops where the room for the ledger begins, not where the disk ends."""
    looked: list[int] = []

    def full(wanted: int = 0) -> None:
        looked.append(wanted)
        raise InboxFullError

    monkeypatch.setattr(rig.inbox, "check_room", full)
    got = rig.send(b" " * (50 << 20) + b"\n")
    assert (got.status_code, rig.answers, rig.files, looked) == (507, {"full": 1}, [], [0])


def test_while_a_bomb_is_unpacked_others_are_answered(rig: Rig) -> None:
    """A few kB can be work for a second; no request waits for the end of another."""
    body = gzip.compress(b" " * (100 << 20) + b"\n")
    turns = [0]

    async def give(_message: Any) -> None:
        return

    async def both() -> None:
        parts = iter([{"type": "http.request", "body": body}])

        async def take() -> dict[str, Any]:
            return next(parts)

        async def others() -> None:
            while True:
                turns[0] += 1
                await asyncio.sleep(0)

        counting = asyncio.ensure_future(others())
        await Starlette(routes=rig.receiver.routes)(scope_of(rig, body), take, give)
        counting.cancel()

    asyncio.run(both())
    assert rig.answers == {"taken": 1}
    assert turns[0] > 100


def scope_of(rig: Rig, body: bytes) -> dict[str, Any]:
    headers = {
        delivery.RECEIVER: rig.inbox.receiver, delivery.OFFSET: "0", delivery.BEFORE: fingerprint(b"", b""),
        delivery.DIGEST: digest_of(sha256(body).digest()), "Content-Encoding": "gzip",
    }  # fmt: skip
    return {
        "type": "http", "method": "PATCH", "path": f"/receive/{STREAM}", "query_string": b"", "http_version": "1.1",
        "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
    }  # fmt: skip


def test_a_long_line_is_staged_beside_memory(rig: Rig) -> None:
    """What is longer than memory is meant for goes through a file without a name, and nothing of it stays."""
    line = b'{"image":"' + b"A" * (4 * receive.STAGE_BYTES) + b'"}\n'
    assert rig.send(line).headers[delivery.OFFSET] == str(len(line))
    assert rig.files == [line]
    assert {path.suffix for path in rig.inbox.folder.rglob("*") if path.is_file()} <= {".jsonl", ""}


def test_a_full_disk_is_told_with_when_to_come_again(rig: Rig) -> None:
    """507, and the same delivery is taken once there is room."""
    rig.inbox._keep_free = 1 << 60
    got = rig.send()
    assert (got.status_code, got.headers["Retry-After"], rig.answers) == (507, "30", {"full": 1})
    rig.inbox._keep_free = 0
    assert rig.send().status_code == 200
    assert rig.files == [LINES]


def test_too_much_a_second_is_put_off(tmp_path: Path) -> None:
    """What was taken beyond the rate has to be waited for; then it goes on."""
    now = [0.0]
    rig = Rig(tmp_path / "inbox", max_rate=1000, monotonic=lambda: now[0])
    assert rig.send().status_code == 200  # 2,300 bytes
    got = rig.send()
    assert (got.status_code, got.headers["Retry-After"], rig.answers["busy"]) == (429, "2", 1)
    now[0] = 1.31
    assert rig.send().status_code == 200
    rig.inbox.close()


def test_too_many_at_a_time_are_put_off(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the places there are, a delivery is asked to come again."""
    monkeypatch.setattr(receive, "AT_ONCE", 0)
    got = rig.send()
    assert (got.status_code, got.headers["Retry-After"], rig.files) == (429, "1", [])


@pytest.mark.parametrize(
    "given", [None, "", "Bearer", "Bearer wrong", "Basic " + TOKEN, f"Bearer {TOKEN}x", "Bearer ²"]
)
def test_without_the_token_nothing_is_said(tmp_path: Path, given: str | None) -> None:
    """401 before anything else is looked at, whether a stream is there or not."""
    rig = Rig(tmp_path / "inbox", tokens=lambda: [TOKEN, "another-of-the-tokens"])
    headers = {} if given is None else {"Authorization": given.encode()}
    for method, path in (("GET", "/receive"), ("HEAD", f"/receive/{STREAM}"), ("PATCH", f"/receive/{STREAM}")):
        got = rig.web.request(method, path, headers=headers)
        assert (got.status_code, got.headers["WWW-Authenticate"]) == (401, "Bearer")
        assert rig.inbox.receiver not in str(got.headers) + got.text
    assert rig.answers == {"unauthorized": 3}
    assert rig.files == []
    rig.inbox.close()


@pytest.mark.parametrize("given", [f"Bearer {TOKEN}", f"bearer  {TOKEN} ", "Bearer another-of-the-tokens"])
def test_any_of_the_tokens_opens(tmp_path: Path, given: str) -> None:
    """Two at a time, so that one can be replaced; no password is asked for with one of them, and only here."""
    rig = Rig(tmp_path / "inbox", tokens=lambda: [TOKEN, "another-of-the-tokens"])
    assert rig.send(Authorization=given).status_code == 200
    scope = {"type": "http", "path": "/receive/x", "headers": [(b"authorization", given.encode())]}
    assert rig.receiver.opens(scope)
    assert not rig.receiver.opens(scope | {"path": "/metrics"})
    assert not rig.receiver.opens(scope | {"path": "/receiver"})
    assert not rig.receiver.opens(scope | {"headers": []})
    rig.inbox.close()


def test_without_a_guard_nothing_is_taken(tmp_path: Path) -> None:
    """A web configuration that loses its passwords while we run does not open the inbox."""
    guarded = [True]
    rig = Rig(tmp_path / "inbox", guarded=lambda: guarded[0])
    assert rig.send().status_code == 200
    guarded[0] = False
    assert rig.send().status_code == 401
    rig.inbox.close()


def test_a_body_that_stands_still_is_given_up(tmp_path: Path) -> None:
    """408 after the quiet time, its place free again, and nothing written."""
    rig = Rig(tmp_path / "inbox", quiet=0.05)
    body = gzip.compress(LINES)
    sent: list[dict[str, Any]] = []

    async def slow() -> None:
        parts = iter([{"type": "http.request", "body": body[:20], "more_body": True}])

        async def take() -> dict[str, Any]:
            part = next(parts, None)
            if part is None:
                await asyncio.Event().wait()
            assert part is not None
            return part

        async def give(message: Any) -> None:
            sent.append(message)

        await Starlette(routes=rig.receiver.routes)(scope_of(rig, body), take, give)

    asyncio.run(slow())
    assert sent[0]["status"] == 408
    assert rig.answers == {"slow": 1}
    assert rig.receiver._here == 0
    assert rig.files == []
    rig.inbox.close()


def test_a_body_that_never_ends_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces that keep coming, each in time: 408 after the time for all of it, nothing written, the place free again."""
    monkeypatch.setattr(receive, "BODY_SECONDS", 0.2)
    rig = Rig(tmp_path / "inbox")
    pack = zlib.compressobj(wbits=31)
    sent: list[dict[str, Any]] = []

    async def trickle() -> None:
        async def take() -> dict[str, Any]:
            await asyncio.sleep(0.01)
            piece = pack.compress(b"{}\n") + pack.flush(zlib.Z_SYNC_FLUSH)
            return {"type": "http.request", "body": piece, "more_body": True}

        async def give(message: Any) -> None:
            sent.append(message)

        await Starlette(routes=rig.receiver.routes)(scope_of(rig, b""), take, give)

    asyncio.run(trickle())
    assert sent[0]["status"] == 408
    assert (rig.answers, rig.receiver._here, rig.files) == ({"slow": 1}, 0, [])
    rig.inbox.close()
