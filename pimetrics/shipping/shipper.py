"""File after file to a receiver: ask how much of it is there, send what is not, remember what was taken.

Nothing here is lost by failing: what was not acknowledged is on the disk and sent another time, and what was taken
without our learning of it is sent again and found to be there.
"""

from __future__ import annotations

import json
import random
import zlib
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Final
from urllib.parse import quote

from pimetrics import delivery
from pimetrics.errors import SourceError, WrongUseError
from pimetrics.names import printable
from pimetrics.shipping.client import Answer, Client, UnreachableError
from pimetrics.shipping.memory import Memory, Sent
from pimetrics.shipping.spool import LongLineError, Spooled

FIRST_PAUSE_SECONDS: Final = 0.5
LONGEST_PAUSE_SECONDS: Final = 60.0
LONGEST_ASKED_SECONDS: Final = 300.0
"""How long a receiver may make us wait at most, whatever it asks for."""

_LEVEL: Final = 3
_OTHER_RECEIVERS: Final = 30
"""How often in a row another receiver than ours may answer before ours is taken to be away."""

_GENERATIONS: Final = 1000
_ROUNDS: Final = 20
_YOUNG_SECONDS: Final = 43_200
"""The age of a file of which more is to come: followers take it that to one of a day and more nothing is added."""


class TryLaterError(Exception):
    """Not now; the text says why, for the user.

    Attributes:
        wait: Seconds that the receiver asks to wait; None when it says nothing.
    """

    def __init__(self, reason: str, wait: float | None = None) -> None:
        super().__init__(reason)
        self.wait = wait


class RefusedError(Exception):
    """A file is not taken, and trying again is of no use; the text says why, for the user."""


class Pauses:
    """How long to wait before trying again: longer each time, and different for everyone.

    Args:
        random_: Gives numbers from 0 to 1.
    """

    def __init__(self, random_: Callable[[], float] = random.random) -> None:
        self._random = random_
        self._failures = 0

    def worked(self) -> None:
        """Begin anew."""
        self._failures = 0

    def next(self, asked: float | None = None) -> float:
        """Return the next pause, seconds; at least what the receiver asked for."""
        longest = min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2.0 ** min(self._failures, 16))
        self._failures += 1
        # From half of it on: many that failed together must not come again together, and nobody at once.
        pause: float = longest * (0.5 + self._random() / 2)
        return pause if asked is None else min(asked, LONGEST_ASKED_SECONDS) + pause


class Shipper:
    """Delivers files to one address.

    Args:
        client: The way there.
        memory: What was delivered.
        labels: What to say of streams that begin now.
        is_over: Whether a file surely has its last byte.
    """

    def __init__(
        self, client: Client, memory: Memory, *, labels: Mapping[str, str], is_over: Callable[[str], bool]
    ) -> None:
        self._client = client
        self._memory = memory
        self._labels = dict(labels)
        self._is_over = is_over
        self._met: str | None = None
        self._known: set[str] = set()
        self.delivered_bytes = 0

    def ship(self, path: Path, leave: Callable[[], bool] = lambda: False) -> bool:
        """Deliver what there is of a file; return whether all of it is there now.

        Args:
            path: The file. One that is gone has nothing to deliver.
            leave: Asked between deliveries; true ends the work at this point.

        Raises:
            TryLaterError: It could not be delivered now.
            RefusedError: It can not be delivered.
            SourceError: The file cannot be read.
        """
        with self._memory.of(path) as sent:
            if sent is None:
                return False  # another process is at it
            try:
                over = path.name.endswith((".gz", ".zst")) or self._is_over(str(path))  # before its size is looked at
                info = path.stat()
                if sent.complete and (over or info.st_size == sent.size):
                    return True
                if not over and (info.st_size, info.st_mtime_ns) == (sent.size, sent.mtime_ns):
                    return True
                with Spooled(path, over=over) as spooled:
                    done = self._deliver(spooled, sent, over=over, leave=leave)
            except FileNotFoundError:
                return True
            except OSError as error:
                raise SourceError(
                    f"{printable(str(path))} cannot be read ({error.strerror}); check its permissions"
                ) from None
            if done:
                sent.size, sent.mtime_ns, sent.complete = info.st_size, info.st_mtime_ns, over
            return done

    def _deliver(self, spooled: Spooled, sent: Sent, *, over: bool, leave: Callable[[], bool]) -> bool:
        if not sent.offset:
            sent.labels = sent.labels or self._labels
        for asked in range(_ROUNDS):
            stream = spooled.stream(sent.generation)
            if stream is None:
                return True  # there is no line yet
            if stream in self._known and not asked:
                offset = sent.offset  # what it said last; if it has less now, it says so
            else:
                answer = self._ask("HEAD", stream, sent, {})
                if answer.status != 204:
                    raise _refused(answer)
                offset = _offset(answer)
                self._known.add(stream)
            if self._send_from(offset, stream, spooled, sent, over=over, leave=leave):
                return True
            if leave():
                return False
        raise TryLaterError("the receiver and this machine do not agree on what is there")

    def _send_from(
        self, offset: int, stream: str, spooled: Spooled, sent: Sent, *, over: bool, leave: Callable[[], bool]
    ) -> bool:
        """Send from an offset on; return whether all is there. If not, ask again for the offset.

        Also where nothing is new an empty delivery goes, by which what stands before it is compared.
        """
        compared = False
        while not leave():
            if offset > spooled.size:
                self._other_content(sent)
                return False
            try:
                batch = spooled.batch(offset)
            except LongLineError:
                raise RefusedError("it holds a line that is too long to be delivered") from None
            complete = over and batch.last
            if not batch.data and not complete and compared:
                return True
            body = _gzip(batch.data)
            headers = {
                delivery.OFFSET: str(offset),
                delivery.BEFORE: spooled.before(offset),
                delivery.DIGEST: delivery.digest_of(sha256(body).digest()),
                "Content-Encoding": "gzip",
                "Content-Type": "application/octet-stream",
                **({delivery.COMPLETE: "?1"} if complete else {}),
                delivery.AGE: str(spooled.age_s if batch.last else min(spooled.age_s, _YOUNG_SECONDS)),
            }
            answer = self._ask("PATCH", stream, sent, headers, body)
            if answer.status == 409:
                if delivery.OFFSET.lower() not in answer.headers:
                    self._other_content(sent)
                return False
            if answer.status != 200:
                raise _refused(answer)
            compared = True
            self.delivered_bytes += len(batch.data)
            offset = sent.offset = _offset(answer)
            if batch.last and offset >= batch.offset + len(batch.data):
                return True
        return False

    def _other_content(self, sent: Sent) -> None:
        """The file is not what was delivered under its name: it begins anew, under another."""
        sent.generation += 1
        sent.offset, sent.size = 0, -1
        if sent.generation > _GENERATIONS:
            raise RefusedError("the receiver holds other files under all its names")

    def _ask(
        self, method: str, stream: str, sent: Sent, headers: Mapping[str, str], body: bytes | None = None
    ) -> Answer:
        """Ask the receiver that this machine belongs to."""
        labels = {delivery.LABEL + name: quote(value, safe="") for name, value in sent.labels.items()}
        for _ in range(_OTHER_RECEIVERS):
            receiver = self._receiver(about_to_send=method == "PATCH")
            named = {delivery.RECEIVER: receiver, **labels, **headers}
            answer = self._request(method, f"{delivery.PATH}/{stream}", named, body)
            if answer.status != 421:
                return answer
            self._client.close()  # another connection may lead to ours
        self._met = None
        raise TryLaterError("the receiver that has the earlier deliveries of this machine does not answer")

    def _receiver(self, *, about_to_send: bool) -> str:
        """Return the receiver that this machine belongs to: the first one it meets, from the first delivery on."""
        belongs = self._memory.receiver
        if belongs is not None:
            return belongs
        if self._met is None:
            answer = self._request("GET", delivery.PATH, {})
            if answer.status != 200:
                raise _refused(answer)
            try:
                found = json.loads(answer.body)["receiver"]
            except (ValueError, TypeError, KeyError):
                found = None
            if not isinstance(found, str) or not found.isalnum() or not found.isascii():
                raise TryLaterError("no receiver answers at that address")
            self._met = found
        if about_to_send:
            # Remembered before anything is sent: should the answer get lost, only this receiver can tell.
            self._met = self._memory.belong(self._met)
        return self._met

    def _request(self, method: str, path: str, headers: Mapping[str, str], body: bytes | None = None) -> Answer:
        try:
            answer = self._client.request(method, path, headers, body)
        except UnreachableError as error:
            raise TryLaterError(f"the receiver cannot be reached: {error}") from None
        except WrongUseError as error:  # they could be read when we began: somebody is replacing them
            raise TryLaterError(str(error)) from None
        if answer.status in {401, 403}:
            raise TryLaterError("the receiver does not accept the credentials", answer.retry_after)
        if answer.status in {408, 429} or answer.status >= 500:
            raise TryLaterError(f"the receiver asks to come later (status {answer.status})", answer.retry_after)
        return answer


def _offset(answer: Answer) -> int:
    given = answer.headers.get(delivery.OFFSET.lower(), "")
    if not (given.isascii() and given.isdecimal() and len(given) < 16):
        raise TryLaterError("no receiver answers at that address")
    return int(given)


def _refused(answer: Answer) -> Exception:
    if answer.status == 404:
        return TryLaterError("no receiver answers at that address (status 404)")
    return RefusedError(f"the receiver does not take it (status {answer.status})")


def _gzip(data: bytes) -> bytes:
    pack = zlib.compressobj(_LEVEL, wbits=31)
    return pack.compress(data) + pack.flush()
