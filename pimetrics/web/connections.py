"""At most so many connections, and none for ever: a neighbour that connects and is silent keeps nobody else out.

A connection *waits* while the client has to act: shake hands, send the head of a request, take an answer. It may do so
for a while only, and when all places are taken the one that waits longest gives way to the next that comes. A
connection whose request is being answered is never ended here.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import resource
import socket
import ssl
from collections import deque
from collections.abc import Callable
from typing import Final

MOST_CONNECTIONS: Final = 256
"""Fewer where the process may open fewer than four times as many files."""

PATIENCE_SECONDS: Final = 10.0
"""How long a client may take to connect and send the head of a request, and from one request to the next."""

ANSWER_SECONDS: Final = 30.0
"""How long a client may take to take an answer."""

_AT_A_TIME: Final = 1024
"""Connections taken before others get their turn."""

_SWEEP_SECONDS: Final = 0.5

_RETRY_SECONDS: Final = 0.1
_EXHAUSTED: Final = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}


class Place:
    """What one connection takes up.

    Attributes:
        leave: Ends the connection, at once and from outside.
    """

    __slots__ = ("_places", "leave")

    def __init__(self, places: Places, leave: Callable[[], None]) -> None:
        self.leave = leave
        self._places = places

    def ask(self) -> None:
        """Note that the client has to send the head of a request."""
        self.work()
        self._places.asking[self] = self._places.loop.time() + PATIENCE_SECONDS

    def take(self) -> None:
        """Note that the client has an answer to take; it gives way after those that have none."""
        self.work()
        self._places.taking[self] = self._places.loop.time() + ANSWER_SECONDS

    def work(self) -> None:
        """Note that it is our turn to act."""
        self._places.asking.pop(self, None)
        self._places.taking.pop(self, None)

    def free(self) -> None:
        """Give the place back."""
        self.work()
        self._places.taken.discard(self)


class Places:
    """The places for connections.

    Attributes:
        taken: All that are taken.
        asking: Of these, those whose client has to ask, and until when; the longest waiting first.
        taking: Of these, those whose client has an answer to take, likewise.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, most: int) -> None:
        self.loop = loop
        self.most = most
        self.taken: set[Place] = set()
        self.asking: dict[Place, float] = {}
        self.taking: dict[Place, float] = {}
        self._sweeper = loop.call_later(_SWEEP_SECONDS, self._sweep)

    def seat(self, leave: Callable[[], None]) -> Place | None:
        """Take a place, that of the longest waiting when there is no other; None if nobody waits."""
        if len(self.taken) >= self.most and not self.make_room():
            return None
        place = Place(self, leave)
        self.taken.add(place)
        place.ask()
        return place

    def make_room(self) -> bool:
        """End the connection that waits longest; return whether there is one."""
        for place in self.asking or self.taking:
            self._end(place)
            return True
        return False

    def close(self) -> None:
        """End all connections whose client has to act."""
        self._sweeper.cancel()
        while self.make_room():
            pass

    def _sweep(self) -> None:
        now = self.loop.time()
        for waiting in (self.asking, self.taking):
            for place in [place for place, until in waiting.items() if until <= now]:
                self._end(place)
        self._sweeper = self.loop.call_later(_SWEEP_SECONDS, self._sweep)

    def _end(self, place: Place) -> None:
        place.free()
        place.leave()


class Acceptor:
    """Takes connections from a listening socket.

    Args:
        listener: The socket.
        make_protocol: Makes what speaks over a connection.
        context: Gives TLS as it is in force, for each connection anew; None for plain connections.
        most: See `MOST_CONNECTIONS`.
    """

    def __init__(
        self,
        listener: socket.socket,
        make_protocol: Callable[[Place], asyncio.Protocol],
        context: Callable[[], ssl.SSLContext | None],
        *,
        most: int | None = None,
    ) -> None:
        self._listener = listener
        self._make_protocol = make_protocol
        self._context = context
        self._loop = asyncio.get_running_loop()
        self._places = Places(self._loop, most or most_connections())
        self._opening: set[asyncio.Task[None]] = set()
        self._retry: asyncio.TimerHandle | None = None
        listener.setblocking(False)  # noqa: FBT003  its own interface
        self._listen()

    def close(self) -> None:
        """Take no more connections and end those that wait."""
        if self._retry is not None:
            self._retry.cancel()
        self._loop.remove_reader(self._listener)
        self._places.close()

    def _listen(self) -> None:
        self._loop.add_reader(self._listener, self._accept)

    def _accept(self) -> None:
        came: deque[socket.socket] = deque()
        for _ in range(_AT_A_TIME):
            try:
                connection, _address = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                break
            except OSError as error:
                if error.errno not in _EXHAUSTED:
                    raise
                # Files are used up: one that waits gives way; the socket stays readable, so rest a moment.
                self._places.make_room()
                self._loop.remove_reader(self._listener)
                self._retry = self._loop.call_later(_RETRY_SECONDS, self._listen)
                break
            if len(came) == self._places.most:
                came.popleft().close()  # of a crowd that comes at once it waits longest
            came.append(connection)
        for each in came:
            self._seat(each)

    def _seat(self, connection: socket.socket) -> None:
        """Give a connection a place. Until its first byte it costs no more than that."""

        def hang_up() -> None:
            self._loop.remove_reader(connection)
            connection.close()

        place = self._places.seat(hang_up)
        if place is None:
            connection.close()
            return
        connection.setblocking(False)  # noqa: FBT003
        self._loop.add_reader(connection, self._open, connection, place)

    def _open(self, connection: socket.socket, place: Place) -> None:
        def hang_up() -> None:
            """End a connection that shakes hands: whoever has it sees it end."""
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

        self._loop.remove_reader(connection)
        place.leave = hang_up
        task = self._loop.create_task(self._shake_hands(connection, place))
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)

    async def _shake_hands(self, connection: socket.socket, place: Place) -> None:
        try:
            await self._loop.connect_accepted_socket(
                lambda: self._make_protocol(place), connection, ssl=self._context()
            )
        except OSError:  # it went away, or speaks no TLS that is allowed: its own affair
            place.free()
            connection.close()


def most_connections() -> int:
    """Return how many there may be: of the files half are for other things, a quarter for who comes next."""
    soft, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST_CONNECTIONS if soft == resource.RLIM_INFINITY else min(MOST_CONNECTIONS, max(8, soft // 4))
