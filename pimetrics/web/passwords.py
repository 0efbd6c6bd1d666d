"""Basic authentication against bcrypt hashes, without letting those who guess hold up those who know.

One check costs 0.1 to 0.4 s of processor time, so checks run in a few threads of their own, a right password is
remembered, and only so many checks wait: what comes above is turned away at once. Nothing tells a wrong name from a
wrong password: a name that nobody has is checked against somebody's hash.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import hashlib
import ipaddress
import os
import queue
import secrets
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

MOST_WAITING: Final = 16
"""Checks that wait or run, all clients together."""

MOST_OF_ONE: Final = 4
"""Of these, those of one client address: another address finds room when one guesses."""

_REMEMBERED: Final = 1000
_BCRYPT_BYTES: Final = 72
"""What bcrypt looks at; the rest of a password counts for nothing, here as everywhere."""


class BusyError(Exception):
    """It cannot be checked now: too many checks wait already, or the end has come."""


class _Job(NamedTuple):
    password: bytes
    hashed: bytes
    loop: asyncio.AbstractEventLoop
    answer: asyncio.Future[bool]


def credentials(header: bytes) -> tuple[bytes, bytes] | None:
    """Read the value of an Authorization header: (user, password); None if it is not of basic authentication."""
    scheme, _, encoded = header.partition(b" ")
    if scheme.lower() != b"basic":
        return None
    try:
        user, colon, password = base64.b64decode(encoded.strip(), validate=True).partition(b":")
    except binascii.Error:
        return None
    return (user, password) if colon else None


class Passwords:
    """Checks passwords; to be used from one event loop.

    Args:
        matches: Tells whether a password belongs to a bcrypt hash; by default bcrypt's own.
        threads: How many checks run at a time; by default half of the processors, so that scrapes keep the others.
    """

    def __init__(self, matches: Callable[[bytes, bytes], bool] | None = None, threads: int | None = None) -> None:
        self._matches = matches
        self._threads = threads or min(4, max(1, (os.cpu_count() or 1) // 2))
        self._secret = secrets.token_bytes(32)
        self._right: OrderedDict[bytes, None] = OrderedDict()
        self._running: dict[bytes, asyncio.Future[bool]] = {}
        self._by_client: Counter[str] = Counter()
        self._jobs: queue.SimpleQueue[_Job] = queue.SimpleQueue()
        self._started = False

    async def check(self, users: Mapping[str, str], user: bytes, password: bytes, client: str) -> bool:
        """Tell whether a password is that of a user.

        Args:
            users: bcrypt hashes by name; not empty.
            user: Name as the client sent it.
            password: Password as the client sent it.
            client: Address that it came from.

        Raises:
            BusyError: Too many checks wait, of this client or altogether.
        """
        name = user.decode("utf-8", "surrogateescape")
        hashed = (users.get(name) or self._decoy(users, user)).encode()
        key = self._key(user, hashed, password)
        if key in self._right:
            self._right.move_to_end(key)
            return True
        running = self._running.get(key)
        if running is None:
            running = self._begin(key, password, hashed, _neighbourhood(client))
        if not await asyncio.shield(running) or name not in users:
            return False
        self._right[key] = None
        if len(self._right) > _REMEMBERED:
            self._right.popitem(last=False)
        return True

    def close(self) -> None:
        """Turn away all who wait; the checks that run are not waited for."""
        for answer in list(self._running.values()):
            if not answer.done():
                answer.set_exception(BusyError)

    def _decoy(self, users: Mapping[str, str], user: bytes) -> str:
        """Choose the hash that a name which nobody has is checked against: always the same, so always as slow."""
        hashes = sorted(users.values())
        return hashes[int.from_bytes(self._key(user)) % len(hashes)]

    def _key(self, *parts: bytes) -> bytes:
        """Name what was checked, so that no password stays in memory and nothing can be tried against its name."""
        digest = hashlib.blake2b(key=self._secret, digest_size=32)
        for part in parts:
            digest.update(len(part).to_bytes(8))
            digest.update(part)
        return digest.digest()

    def _begin(self, key: bytes, password: bytes, hashed: bytes, client: str) -> asyncio.Future[bool]:
        if len(self._running) >= MOST_WAITING or self._by_client[client] >= MOST_OF_ONE:
            raise BusyError
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[bool] = loop.create_future()
        self._running[key] = answer
        self._by_client[client] += 1

        def settled(answer: asyncio.Future[bool]) -> None:
            answer.exception()  # seen, also when nobody waits for it any more
            del self._running[key]
            self._by_client[client] -= 1
            if not self._by_client[client]:
                del self._by_client[client]

        answer.add_done_callback(settled)
        if not self._started:
            self._started = True
            for number in range(self._threads):
                # A daemon thread: the end of the process does not wait for a check.
                threading.Thread(target=self._work, daemon=True, name=f"bcrypt-{number}").start()
        self._jobs.put(_Job(password, hashed, loop, answer))
        return answer

    def _work(self) -> None:
        matches = self._matches or _bcrypt()
        while True:
            job = self._jobs.get()
            try:
                right = matches(job.password[:_BCRYPT_BYTES], job.hashed)
            except ValueError:  # a password that bcrypt does not take
                right = False
            with contextlib.suppress(RuntimeError):  # the loop has ended: nobody waits for the answer
                job.loop.call_soon_threadsafe(_settle, job.answer, right)


def _settle(answer: asyncio.Future[bool], right: bool) -> None:  # noqa: FBT001  a callback
    if not answer.done():
        answer.set_result(right)


def _bcrypt() -> Callable[[bytes, bytes], bool]:
    import bcrypt  # noqa: PLC0415  only who asks for passwords waits for it

    return bcrypt.checkpw


def _neighbourhood(client: str) -> str:
    """Name whose address it is: of IPv6 the /64, all of which one machine may use."""
    try:
        address = ipaddress.ip_address(client.partition("%")[0])
    except ValueError:
        return client
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    return str(address.ipv4_mapped or ipaddress.IPv6Network((int(address) >> 64 << 64, 64)))
