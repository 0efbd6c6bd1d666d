"""The HTTP side of a receiver: takes deliveries (see `pimetrics.delivery`); of all else nothing is written.

A body is decompressed as it comes, into memory and beyond `STAGE_BYTES` into a file without a name, and given on when
it is whole and its digest is right. So memory is bounded by the number of deliveries at a time, whatever they hold and
however slow they are, and a delivery that is cut off has never been there.
"""

from __future__ import annotations

import asyncio
import hmac
import math
import tempfile
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO, Final, Protocol, cast
from urllib.parse import unquote

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Scope

from pimetrics import delivery
from pimetrics.delivery import GapError, InboxFullError, OtherContentError

AT_ONCE: Final = 32
"""Deliveries that are taken at the same time; who comes beyond them is asked to come again."""

STAGE_BYTES: Final = 1 << 20
"""How much of a body is held in memory."""

QUIET_SECONDS: Final = 20.0
"""How long a body may stand still."""

BODY_SECONDS: Final = 300.0
"""How long a body may take altogether."""

_STEP_BYTES: Final = 256 * 1024
_DISK_THREADS: Final = 8
_BUSY_SECONDS: Final = 1
_FULL_SECONDS: Final = 30


class Inbox(Protocol):
    """Where deliveries are kept; see `sinks.inbox`."""

    receiver: str
    labels: tuple[str, ...]
    folder: Path

    def offset(self, stream: str, labels: Mapping[str, str]) -> int:
        """Return how many bytes of a stream are here."""

    def check_room(self) -> None:
        """Raise InboxFullError when the disk has little room left."""

    def append(
        self,
        stream: str,
        labels: Mapping[str, str],
        offset: int,
        before: str,
        body: BinaryIO,
        *,
        complete: bool = False,
        age_s: float = 0.0,
    ) -> int:
        """Keep what is new in a delivery; return how much of the stream is here then."""


class _RefusedError(Exception):
    """A request that is not taken.

    Attributes:
        answer: Its short name in `pimetrics_deliveries_total`.
        response: What is answered.
    """

    def __init__(self, answer: str, status: int, text: str, **headers: str) -> None:
        super().__init__(text)
        self.answer = answer
        # Named, since keyword arguments cannot hold a hyphen.
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.response = JSONResponse({"error": text}, status, {"Cache-Control": "no-store", **named})


class Receiver:
    """Takes deliveries for an inbox.

    Args:
        inbox: Where they go.
        count: Called with the short name of each answer and the bytes that were taken with it.
        max_rate: Bytes a second, uncompressed, that are taken; None sets no limit.
        tokens: Gives the bearer tokens that are accepted, at each request; None leaves it to `guarded`.
        guarded: Tells whether everyone who gets as far as here may deliver, where there are no tokens.
        monotonic: A clock that never goes back, seconds.
        quiet: See `QUIET_SECONDS`.
    """

    def __init__(
        self,
        inbox: Inbox,
        *,
        count: Callable[[str, int], None] = lambda _answer, _size: None,
        max_rate: float | None = None,
        tokens: Callable[[], Sequence[str]] | None = None,
        guarded: Callable[[], bool] = lambda: True,
        monotonic: Callable[[], float] = time.monotonic,
        quiet: float = QUIET_SECONDS,
    ) -> None:
        self._inbox = inbox
        self._count = count
        self._rate = _Rate(max_rate, monotonic)
        self._quiet = quiet
        self._tokens = tokens
        self._guarded = guarded
        self._here = 0
        self._disk = ThreadPoolExecutor(_DISK_THREADS, "inbox")
        self.routes = [
            Route(delivery.PATH, self._who, methods=["GET"]),
            Route(f"{delivery.PATH}/{{stream}}", self._stream, methods=["HEAD", "PATCH"]),
        ]

    def opens(self, scope: Scope) -> bool:
        """Whether a request is one to deliver, with a token that is right: no password is asked for then."""
        is_ours = scope["path"] == delivery.PATH or scope["path"].startswith(delivery.PATH + "/")
        return self._tokens is not None and is_ours and self._accepts(Headers(scope=scope).get("authorization"))

    def _accepts(self, authorization: str | None) -> bool:
        if self._tokens is None:
            return self._guarded()
        scheme, _, given = (authorization or "").partition(" ")
        # All are compared, hashed, so that the time tells nothing about any of them.
        right = [hmac.compare_digest(_hash(given.strip()), _hash(token)) for token in self._tokens()]
        return scheme.lower() == "bearer" and any(right)

    async def _who(self, request: Request) -> Response:
        try:
            self._is_allowed(request)
        except _RefusedError as refused:
            self._count(refused.answer, 0)
            return refused.response
        self._count("asked", 0)
        known = {"receiver": self._inbox.receiver, "labels": self._inbox.labels}
        return JSONResponse(known, headers={"Cache-Control": "no-store"})

    async def _stream(self, request: Request) -> Response:
        try:
            self._is_allowed(request)
            stream = self._named(request)
            self._is_meant(request)
            labels = self._labels(request)
            if request.method == "PATCH":
                return await self._take(request, stream, labels)
            offset = await self._on_disk(self._inbox.offset, stream, labels)
            self._count("asked", 0)
            return self._answer(204, offset)
        except _RefusedError as refused:
            self._count(refused.answer, 0)
            return refused.response

    async def _take(self, request: Request, stream: str, labels: dict[str, str]) -> Response:
        headers = request.headers
        offset, before, digest = (
            headers.get(delivery.OFFSET, ""),
            headers.get(delivery.BEFORE),
            headers.get("content-digest"),
        )
        if not _is_number(offset) or before is None or digest is None:
            raise _RefusedError(
                "malformed", 400, f"{delivery.OFFSET}, {delivery.BEFORE} and {delivery.DIGEST} must be given"
            )
        age = headers.get(delivery.AGE, "0")
        if not _is_number(age):
            raise _RefusedError("malformed", 400, f"{delivery.AGE} is no number of seconds")
        if headers.get("content-encoding") != "gzip":
            raise _RefusedError("malformed", 415, "the body must be gzip", Accept_Encoding="gzip")
        if _length(headers.get("content-length", "")) > delivery.MAX_BODY_BYTES:
            raise _too_large()
        complete = headers.get(delivery.COMPLETE) == "?1"
        if (wait := self._rate.wait()) > 0:
            raise _RefusedError("busy", 429, "too much at a time", Retry_After=str(math.ceil(wait)))
        if self._here >= AT_ONCE:
            raise _RefusedError("busy", 429, "too many at a time", Retry_After=str(_BUSY_SECONDS))
        self._here += 1
        try:
            with tempfile.SpooledTemporaryFile(STAGE_BYTES, dir=str(self._inbox.folder)) as stage:
                body = cast("BinaryIO", stage)
                size = await self._stage(request, body, digest)
                if size and not complete:
                    body.seek(-1, 2)
                    if body.read(1) != b"\n":
                        raise _RefusedError("malformed", 400, "a delivery is whole lines")
                body.seek(0)
                self._rate.take(size)
                now = await self._on_disk(
                    lambda: self._inbox.append(
                        stream, labels, int(offset), before, body, complete=complete, age_s=int(age)
                    )
                )
        finally:
            self._here -= 1
        self._count("taken", size)
        return self._answer(200, now)

    async def _stage(self, request: Request, body: BinaryIO, digest: str) -> int:
        """Decompress a body as it comes; return how long it is then."""
        unzip = zlib.decompressobj(wbits=31)
        seen = sha256()
        sent = size = 0
        chunks = request.stream()
        try:
            async with asyncio.timeout(BODY_SECONDS):
                while True:
                    async with asyncio.timeout(self._quiet):
                        chunk = await anext(chunks, None)
                    if chunk is None:
                        break
                    sent += len(chunk)
                    seen.update(chunk)
                    if sent > delivery.MAX_BODY_BYTES:
                        raise _too_large()
                    while chunk:
                        plain = unzip.decompress(chunk, _STEP_BYTES)
                        size += len(plain)
                        if size > delivery.MAX_BODY_BYTES:
                            raise _too_large()
                        if size > STAGE_BYTES:
                            self._inbox.check_room()
                        body.write(plain)
                        await asyncio.sleep(0)  # little that swells to much is long work: others have their turn
                        chunk = unzip.unconsumed_tail
                        if unzip.unused_data:
                            raise _RefusedError("malformed", 400, "something follows the gzip body")
        except TimeoutError:
            raise _RefusedError("slow", 408, "the body came too slowly", Connection="close") from None
        except ClientDisconnect:
            raise _RefusedError("cut", 400, "the body was cut off") from None
        except zlib.error:
            raise _RefusedError("malformed", 400, "the body is no gzip") from None
        except (OSError, InboxFullError):
            raise _full() from None
        rest = unzip.flush()
        size += len(rest)
        body.write(rest)
        if not unzip.eof:
            raise _RefusedError("malformed", 400, "the gzip body is cut off")
        if digest != delivery.digest_of(seen.digest()):
            raise _RefusedError("malformed", 400, "the body is not the one of its digest")
        return size

    async def _on_disk(self, work: Callable[..., int], *given: Any) -> int:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._disk, work, *given)
        except GapError as gap:
            raise _RefusedError("gap", 409, "bytes before it are missing", Upload_Offset=str(gap.offset)) from None
        except OtherContentError:
            raise _RefusedError("other_content", 409, "other bytes are here under that name") from None
        except InboxFullError:
            raise _full() from None
        except OSError:
            raise _RefusedError(
                "full", 503, "the disk of the receiver does not work", Retry_After=str(_FULL_SECONDS)
            ) from None

    def _is_allowed(self, request: Request) -> None:
        if not self._accepts(request.headers.get("authorization")):
            raise _RefusedError(
                "unauthorized", 401, "the credentials are missing or wrong",
                WWW_Authenticate="Bearer", Connection="close",
            )  # fmt: skip

    @staticmethod
    def _named(request: Request) -> str:
        stream = str(request.path_params["stream"])
        if not delivery.STREAM.fullmatch(stream):
            raise _RefusedError("malformed", 404, "that is no name of a stream", Connection="close")
        return stream

    def _is_meant(self, request: Request) -> None:
        meant = request.headers.get(delivery.RECEIVER)
        if meant is None:
            raise _RefusedError("malformed", 400, f"{delivery.RECEIVER} must be given")
        if meant != self._inbox.receiver:
            raise _RefusedError("other_receiver", 421, "another receiver has this stream", Connection="close")

    def _labels(self, request: Request) -> dict[str, str]:
        given = {name: request.headers.get(delivery.LABEL + name) for name in self._inbox.labels}
        return {name: unquote(value) for name, value in given.items() if value is not None}

    def _answer(self, status: int, offset: int) -> Response:
        headers = {
            delivery.OFFSET: str(offset),
            delivery.RECEIVER: self._inbox.receiver,
            "Cache-Control": "no-store",
        }
        return Response(status_code=status, headers=headers)


class _Rate:
    """How fast bytes are taken, over about a second."""

    def __init__(self, a_second: float | None, monotonic: Callable[[], float]) -> None:
        self._a_second = a_second
        self._now = monotonic
        self._owed = 0.0
        self._at = monotonic()

    def wait(self) -> float:
        """Return how long to wait until more is taken, seconds; 0 for now."""
        if self._a_second is None:
            return 0.0
        now = self._now()
        self._owed = max(0.0, self._owed - (now - self._at) * self._a_second)
        self._at = now
        return max(0.0, self._owed / self._a_second - 1.0)

    def take(self, size: int) -> None:
        """Note that so many bytes were taken."""
        if self._a_second is not None:
            self._owed += size


def _hash(token: str) -> bytes:
    return sha256(token.encode("utf-8", "surrogateescape")).digest()


def _too_large() -> _RefusedError:
    return _RefusedError("too_large", 413, "the body is too long", Connection="close")


def _full() -> _RefusedError:
    return _RefusedError("full", 507, "the disk of the receiver is full", Retry_After=str(_FULL_SECONDS))


def _length(header: str) -> int:
    return int(header) if _is_number(header) else 0


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 16
