"""uvicorn, held to limits: who connects, for how long, over which TLS, and how it ends."""

from __future__ import annotations

import asyncio
import contextlib
import enum
import signal
import socket
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, Final

import h11
import uvicorn
from starlette.types import ASGIApp, Scope
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle
from uvicorn.server import ServerState

from pimetrics.web.connections import Acceptor, Place
from pimetrics.web.guard import Guard
from pimetrics.web.reload import LiveConfig

_GRACE_SECONDS: Final = 1
"""How long a scrape that is being answered may still take after the signal to end."""


class Server(uvicorn.Server):
    """Serves an application until a signal, or whoever sets `should_exit`, ends it; then `run` returns.

    Args:
        app: What is served.
        web: Who gets in, and how.
        opens: Tells whether a request has other credentials than passwords (see `Guard`).
        ending: Called when the end begins, so that the reader commits while scrapes are still answered.

    Attributes:
        failed: What has ended it, if that was no signal.
    """

    failed: BaseException | None = None

    def __init__(
        self,
        app: ASGIApp,
        web: LiveConfig,
        opens: Callable[[Scope], bool] = lambda _: False,
        *,
        ending: Callable[[], None] = lambda: None,
    ) -> None:
        self._guard = Guard(app, lambda: web.config, opens=opens)
        super().__init__(
            uvicorn.Config(
                self._guard,
                loop="asyncio",  # whatever else is installed: sockets are handed over here as it documents
                http=_Protocol,
                ws="none",
                lifespan="off",
                log_config=None,
                log_level="error",  # what clients send wrongly is theirs to know, and no line of the log each
                access_log=False,
                proxy_headers=False,
                server_header=False,
                timeout_graceful_shutdown=_GRACE_SECONDS,
            )
        )
        self._web = web
        self._ending = ending

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Take connections; in place of uvicorn's own, which knows one TLS for ever and no limits before a request."""
        await self.lifespan.startup()
        self.servers = []
        self._acceptors = [Acceptor(each, self._make_protocol, lambda: self._web.context) for each in sockets or []]
        self._following = asyncio.create_task(self._web.follow())
        self.started = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Take no more connections, and let answers that are under way arrive."""
        self._ending()
        self._following.cancel()
        for each in self._acceptors:
            each.close()
        self._guard.close()
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """End on a signal and return, so that what was read is committed; uvicorn's own would die of it."""

        def end(_signal: int, _frame: FrameType | None) -> None:
            self.should_exit = True

        for each in (signal.SIGINT, signal.SIGTERM):
            signal.signal(each, end)
        try:
            yield
        finally:
            for each in (signal.SIGINT, signal.SIGTERM):
                signal.signal(each, signal.SIG_IGN)  # a second one must not cut the last commit short

    def _make_protocol(self, place: Place) -> _Protocol:
        return _Protocol(self.config, self.server_state, self.lifespan.state, place=place, web=self._web)


class _Turn(enum.Enum):
    """Whose turn it is to act on a connection."""

    OURS = "the application answers"
    ASKING = "the client has to send the head of a request"
    TAKING = "the client has to take an answer"


class _Protocol(H11Protocol):
    """Speaks HTTP over one connection, and tells its place whose turn it is to act."""

    def __init__(
        self,
        config: uvicorn.Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        *,
        place: Place,
        web: LiveConfig,
    ) -> None:
        super().__init__(config, server_state, app_state)
        self._place = place
        self._web = web
        self._turn = _Turn.ASKING

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        super().connection_made(transport)
        self._place.leave = transport.abort
        tls = self._web.config.tls
        if tls is not None and not tls.allows(transport.get_extra_info("peercert")):
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._place.free()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._see_turn()

    def send_400_response(self, msg: str) -> None:
        if self.conn.our_state is h11.IDLE:
            super().send_400_response(msg)
            return
        # Nonsense after the head of a request: another answer is due or has been given, and a second cannot be.
        self.cycle.disconnected = True
        self.transport.abort()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._see_turn()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._see_turn()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._see_turn()

    def _see_turn(self) -> None:
        cycle: RequestResponseCycle | None = self.cycle  # none before the first request
        answered = cycle is None or cycle.response_complete
        if self.flow.write_paused or (answered and self.transport.get_write_buffer_size()):
            turn = _Turn.TAKING
        else:
            turn = _Turn.ASKING if answered else _Turn.OURS
        if turn is self._turn:
            return  # the time runs on: a byte now and then wins none
        self._turn = turn
        if turn is _Turn.OURS:
            self._place.work()
        elif turn is _Turn.TAKING:
            self._place.take()
        else:
            self._place.ask()
