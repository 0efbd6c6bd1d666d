"""Stands before the application: a rate, headers, passwords. What it turns away never reaches the application."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Final

from starlette.datastructures import MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pimetrics.web.config import RateLimit, WebConfig
from pimetrics.web.passwords import BusyError, Passwords, credentials

_CHALLENGE: Final = {"WWW-Authenticate": 'Basic realm="pimetrics", charset="UTF-8"'}
_LATER: Final = {"Retry-After": "1"}


class Guard:
    """An ASGI application around another.

    Args:
        app: What is guarded.
        config: Gives the configuration in force; asked at each request.
        opens: Tells whether a request has other credentials, so that no password is asked for.
        passwords: Checks passwords.
        monotonic: A clock that never goes back, seconds.
    """

    def __init__(
        self,
        app: ASGIApp,
        config: Callable[[], WebConfig],
        *,
        opens: Callable[[Scope], bool] = lambda _scope: False,
        passwords: Passwords | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._app = app
        self._config = config
        self._opens = opens
        self._passwords = passwords or Passwords()
        self._now = monotonic
        self._bucket: _Bucket | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or let the application do it."""
        config = self._config()
        if config.headers:
            send = _with_headers(send, config.headers)
        if scope["type"] != "http" or (answer := await self._refuse(config, scope)) is None:
            await self._app(scope, receive, send)
        else:
            await answer(scope, receive, send)

    def close(self) -> None:
        """Turn away those whose passwords are being checked."""
        self._passwords.close()

    async def _refuse(self, config: WebConfig, scope: Scope) -> ASGIApp | None:
        """Return the answer for a request that is turned away."""
        if not self._in_time(config.rate_limit):
            return PlainTextResponse("too many requests\n", 429, headers=_LATER)
        if not config.users or self._opens(scope):
            return None
        given = [value for name, value in scope["headers"] if name == b"authorization"]
        found = credentials(given[0]) if len(given) == 1 else None
        if found is not None:
            client = scope["client"]
            try:
                if await self._passwords.check(config.users, *found, client[0] if client else ""):
                    return None
            except BusyError:
                return PlainTextResponse("too many passwords to check\n", 429, headers=_LATER)
        return PlainTextResponse("unauthorized\n", 401, headers=_CHALLENGE)

    def _in_time(self, limit: RateLimit | None) -> bool:
        if limit is None:
            return True
        if self._bucket is None or self._bucket.limit != limit:
            self._bucket = _Bucket(limit, self._now())
        return self._bucket.take(self._now())


class _Bucket:
    """Holds up to `burst` requests and gains one each `interval_s`."""

    def __init__(self, limit: RateLimit, now: float) -> None:
        self.limit = limit
        self._left, self._at = float(limit.burst), now

    def take(self, now: float) -> bool:
        self._left = min(float(self.limit.burst), self._left + (now - self._at) / self.limit.interval_s)
        self._at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True


def _with_headers(send: Send, headers: Mapping[str, str]) -> Send:
    """Set headers on whatever is sent; they go before those of the application."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            found = MutableHeaders(scope=message)
            for name, value in headers.items():
                found[name] = value
        await send(message)

    return sending
