"""HTTP to a receiver: one connection, kept as long as it works, credentials from files, errors as two kinds.

`http.client` and not a library: `record` has to start as fast as pi does, and of what a library adds (pools,
redirects, retries of its own) nothing is wanted here, since what to do after a failure is the shipper's to say.
"""

from __future__ import annotations

import contextlib
import ssl
import time
from base64 import b64encode
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from pimetrics import __version__
from pimetrics.errors import WrongUseError
from pimetrics.names import printable

TIMEOUT_SECONDS: Final = 30.0
"""How long connecting may take, or an answer."""

_MOST_ANSWER_BYTES: Final = 64 * 1024


class UnreachableError(Exception):
    """The receiver, or the way to it, does not work now; the text says why, for the user."""


class Answer(NamedTuple):
    """What came back.

    Attributes:
        status: The HTTP status.
        headers: By lower-case name.
        body: Cut at 64 KiB.
    """

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def retry_after(self) -> float | None:
        """Seconds that the receiver asks to wait."""
        given = self.headers.get("retry-after", "")
        if given.isascii() and given.isdecimal() and len(given) < 10:
            return float(given)
        with contextlib.suppress(ValueError):
            return max(0.0, parsedate_to_datetime(given).timestamp() - time.time())
        return None


class Target(NamedTuple):
    """Where to deliver.

    Attributes:
        url: Without a slash at its end.
        host: Name or address.
        port: None for that of the scheme.
        path: What comes before /receive.
        secure: Whether it is HTTPS.
        token_file: Holds a bearer token.
        login_file: Holds `user:password`.
        ca_file: Certificates to trust instead of the system's.
    """

    url: str
    host: str
    port: int | None
    path: str
    secure: bool
    token_file: Path | None = None
    login_file: Path | None = None
    ca_file: Path | None = None


def target(url: str, token_file: Path | None, login_file: Path | None, ca_file: Path | None) -> Target:
    """Read where to deliver, and whether the files are there.

    Raises:
        WrongUseError: The URL is none, holds credentials, or a file cannot be used.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
        (parts.hostname or "").encode("idna")  # what cannot be, no resolver can be asked for
    except ValueError:  # UnicodeError is one
        parts, port = urlsplit(""), None
    if parts.username is not None or parts.password is not None:
        # Not repeated: it would be in a log next.
        raise WrongUseError(
            "--to holds credentials, which everybody can read in the list of processes; put them into a file and name "
            "it with --to-token-file or --to-login-file"
        )
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.fragment:
        raise WrongUseError(
            f"{printable(url)} is no address of a receiver; give one like https://collector.example:9746"
        )
    if token_file is not None and login_file is not None:
        raise WrongUseError("--to-token-file and --to-login-file exclude each other; give one of them")
    found = Target(
        url.rstrip("/"), parts.hostname, port, parts.path.rstrip("/"), parts.scheme == "https",
        token_file, login_file, ca_file,
    )  # fmt: skip
    _authorization(found)
    if ca_file is not None:
        _context(found)
    return found


class Client:
    """Talks to one receiver.

    Args:
        to: Where it is.
        timeout: See `TIMEOUT_SECONDS`.
    """

    def __init__(self, to: Target, timeout: float = TIMEOUT_SECONDS) -> None:
        self._to = to
        self._timeout = timeout
        self._connection: HTTPConnection | None = None

    def request(self, method: str, path: str, headers: Mapping[str, str], body: bytes | None = None) -> Answer:
        """Send a request and return what comes back, whatever its status.

        Raises:
            UnreachableError: Nothing came back.
            WrongUseError: A file with credentials cannot be read any more.
        """
        to, kept = self._to, self._connection is not None
        sent = {"User-Agent": f"pimetrics/{__version__}", **headers} | _authorization(to)
        try:
            return self._try(method, to.path + path, sent, body)
        except (OSError, HTTPException) as error:
            self.close()
            if not kept:
                raise UnreachableError(_reason(error)) from None
        # A connection that was kept may have been closed at the other end meanwhile. Asking again is harmless.
        try:
            return self._try(method, to.path + path, sent, body)
        except (OSError, HTTPException) as error:
            self.close()
            raise UnreachableError(_reason(error)) from None

    def close(self) -> None:
        """Close the connection; the next request makes another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _try(self, method: str, path: str, headers: dict[str, str], body: bytes | None) -> Answer:
        if self._connection is None:
            self._connection = self._connect()
        connection = self._connection
        try:
            connection.request(method, path, body, headers)
        except (BrokenPipeError, ConnectionResetError):
            # Who refuses a body answers without having read it. If there is such an answer it is the better reason.
            response = HTTPResponse(connection.sock, method=method)
            response.begin()
        else:
            response = connection.getresponse()
        with response:
            content = response.read(_MOST_ANSWER_BYTES)
            found = {name.lower(): value for name, value in response.getheaders()}
            if response.will_close or not response.isclosed():
                self.close()
        return Answer(response.status, found, content)

    def _connect(self) -> HTTPConnection:
        to = self._to
        if to.secure:
            return HTTPSConnection(to.host, to.port, timeout=self._timeout, context=_context(to))
        return HTTPConnection(to.host, to.port, timeout=self._timeout)


def _context(to: Target) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=to.ca_file)
    except OSError as error:  # ssl.SSLError is one
        reason = error.strerror or "it holds no certificate"
        raise WrongUseError(f"{printable(str(to.ca_file))} cannot be used for --to-ca-file ({reason})") from None


def _authorization(to: Target) -> dict[str, str]:
    """Read the credentials, each time anew: they may be changed while we run."""
    file = to.token_file or to.login_file
    if file is None:
        return {}
    try:
        text = file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        raise WrongUseError(f"the credentials in {printable(str(file))} cannot be read ({reason})") from None
    if to.token_file is not None:
        if not text.isascii() or not text.isprintable() or not text or " " in text:
            raise WrongUseError(f"{printable(str(file))} holds no token; put one on a line of its own into it")
        return {"Authorization": f"Bearer {text}"}
    if ":" not in text or not text.isprintable():
        raise WrongUseError(f"{printable(str(file))} holds no login; put user:password on one line into it")
    return {"Authorization": f"Basic {b64encode(text.encode()).decode()}"}


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {printable(error.verify_message)}"
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, OSError) and error.strerror:
        return printable(error.strerror)
    return f"no proper answer ({type(error).__name__})"
