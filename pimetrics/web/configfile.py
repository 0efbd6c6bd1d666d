"""Reads the file of `--web.config.file`: the format that Prometheus' exporters share, read strictly.

Every setting of that format is either honoured or refused with a sentence; none is passed over in silence, because a
server that is less closed than its file says is worse than one that does not start. Relative paths are relative to
the file. No sentence holds a value of it: what stands there may be a secret.
"""

from __future__ import annotations

import ipaddress
import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final, TypeVar

import bcrypt
import yaml

from pimetrics.errors import WrongUseError
from pimetrics.names import printable
from pimetrics.web.config import Pem, RateLimit, Tls, WebConfig
from pimetrics.web.tls import CIPHER_SUITES, CLIENT_AUTH, CURVES, VERSIONS

HEADERS: Final[Mapping[str, tuple[str, ...]]] = {
    "Content-Security-Policy": (),
    "Strict-Transport-Security": (),
    "X-Content-Type-Options": ("nosniff",),
    "X-Frame-Options": ("deny", "sameorigin"),
    "X-XSS-Protection": (),
}
"""Headers that the format lets an operator set, and the values that they may have (none named: any)."""

_T = TypeVar("_T")
_MOST_BYTES: Final = 1 << 20
_HASH: Final = re.compile(r"\$2[aby]\$(0[4-9]|[12]\d|3[01])\$[./A-Za-z0-9]{53}")
_UNITS: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION: Final = re.compile(r"(?:\d+(?:\.\d+)?(?:ns|us|µs|ms|s|m|h))+")


def load(path: Path) -> WebConfig:
    """Read a web configuration; the files that it names are not looked at.

    Raises:
        WrongUseError: It cannot be read, or something in it is unknown, malformed or cannot be honoured.
    """
    try:
        root = yaml.compose(_read(path), Loader=yaml.BaseLoader)
    except yaml.MarkedYAMLError as error:
        line = f", line {error.problem_mark.line + 1}" if error.problem_mark is not None else ""
        raise WrongUseError(f"{printable(str(path))}{line}: this is no YAML; correct the file") from None
    except (yaml.YAMLError, RecursionError):
        raise WrongUseError(f"{printable(str(path))}: this is no YAML; correct the file") from None
    top = _Section(path, "", root)
    config = WebConfig(tls=_tls(top), headers=_headers(top), users=_users(top), rate_limit=_rate_limit(top))
    top.finish()
    return config


def is_blank(path: Path) -> bool:
    """Whether a file that can be loaded says nothing at all; `{}` says that nothing is asked for."""
    return yaml.compose(_read(path), Loader=yaml.BaseLoader) is None


def _read(path: Path) -> bytes:
    name = printable(str(path))
    try:
        # A FIFO in its place must not hold the start up.
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise WrongUseError(f"{name} is no file; give --web.config.file a YAML file")
            content = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise WrongUseError(
            f"cannot read the web configuration {name} ({error.strerror}); check --web.config.file"
        ) from None
    if len(content) > _MOST_BYTES:
        raise WrongUseError(f"{name} is larger than 1 MiB; give --web.config.file a web configuration")
    return content


def _tls(top: _Section) -> Tls | None:
    if not top.has("tls_server_config"):
        return None
    section = top.section("tls_server_config")
    if section.empty:
        raise section.error("", "is empty", "give cert_file and key_file, or leave it out")
    cert, key = section.pem("cert", needed=True), section.pem("key", needed=True)
    ca = section.pem("client_ca", needed=False)
    assert cert is not None
    assert key is not None
    client_auth = section.choice("client_auth_type", CLIENT_AUTH, "NoClientCert")
    if client_auth is None:
        raise section.error(
            "client_auth_type",
            "asks for certificates that nobody verifies, which Python's ssl cannot do",
            "use RequireAndVerifyClientCert or VerifyClientCertIfGiven",
        )
    if ca is not None and not client_auth:
        raise section.error("client_ca_file", "has no use here", "set client_auth_type: RequireAndVerifyClientCert")
    if ca is None and client_auth:
        raise section.error("client_auth_type", "verifies against client_ca_file", "give client_ca_file")
    sans = section.texts("client_allowed_sans")
    if sans and client_auth != CLIENT_AUTH["RequireAndVerifyClientCert"]:
        raise section.error(
            "client_allowed_sans", "needs a certificate", "set client_auth_type: RequireAndVerifyClientCert"
        )
    lowest, highest = section.choice("min_version", VERSIONS, "TLS12"), section.choice("max_version", VERSIONS, "TLS13")
    if lowest is None or highest is None:
        which = "min_version" if lowest is None else "max_version"
        raise section.error(which, "is a version that OpenSSL no longer speaks", "use TLS12 or TLS13")
    if lowest > highest:
        raise section.error("min_version", "is above max_version", "correct one of them")
    curves = section.texts("curve_preferences")
    if len(curves) > 1:
        raise section.error("curve_preferences", "has several curves, and Python's ssl can set one", "leave one")
    found = Tls(
        cert=cert,
        key=key,
        client_ca=ca,
        client_auth=client_auth,
        client_allowed_sans=frozenset(map(_san, sans)),
        min_version=lowest,
        max_version=highest,
        ciphers=tuple(_cipher(section, name) for name in section.texts("cipher_suites")),
        prefer_server_ciphers=section.flag("prefer_server_cipher_suites", default=True),
        curve=_one_of(section, "curve_preferences", CURVES, curves[0]) if curves else None,
    )
    section.finish()
    return found


def _cipher(section: _Section, name: str) -> str:
    if name in ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"):
        raise section.error(
            "cipher_suites", f"names {name} of TLS 1.3, whose suites cannot be chosen in Python's ssl", "leave it out"
        )
    return _one_of(section, "cipher_suites", CIPHER_SUITES, name)


def _san(name: str) -> str:
    """Write an address as `tls` does, anything else as it stands."""
    try:
        return str(ipaddress.ip_address(name))
    except ValueError:
        return name


def _headers(top: _Section) -> dict[str, str]:
    section = top.section("http_server_config")
    if section.flag("http2", default=False):
        raise section.error(
            "http2", "cannot be on, because pimetrics speaks HTTP/1.1", "set it to false or leave it out"
        )
    inner = section.section("headers")
    found = {}
    for name, allowed in HEADERS.items():
        value = inner.text(name)
        if not value:
            continue  # "unset if blank"
        if allowed and value not in allowed:
            raise inner.error(name, "has a value that it cannot have", f"use {' or '.join(allowed)}")
        if not value.isprintable() or not value.isascii():
            raise inner.error(name, "holds a character that no header can hold", "remove it")
        found[name] = value
    inner.finish()
    section.finish()
    return found


def _users(top: _Section) -> dict[str, str]:
    section = top.section("basic_auth_users")
    found = {}
    for name in section.names:
        hashed = section.text(name) or ""
        if ":" in name:
            raise section.error(name, "holds a colon, which no user name can have in basic authentication", "rename it")
        if not _is_hash(hashed):
            raise section.error(name, "is no bcrypt hash", "make one with: htpasswd -nBC 10 NAME")
        found[name] = hashed
    return found


def _is_hash(text: str) -> bool:
    if not _HASH.fullmatch(text):
        return False
    try:
        bcrypt.hashpw(b"", f"$2b$04${text[7:29]}".encode())  # at the least cost: it only tells whether the salt is one
    except ValueError:
        return False
    return True


def _rate_limit(top: _Section) -> RateLimit | None:
    section = top.section("rate_limit")
    interval, burst = section.text("interval") or "0", section.text("burst") or "0"
    section.finish()
    if interval != "0" and not _DURATION.fullmatch(interval):
        raise section.error("interval", "is no duration", "write one as 1s or 250ms")
    if not burst.isascii() or not burst.isdecimal() or len(burst) > 9:
        raise section.error("burst", "is no number of requests", "write one as 20")
    seconds = sum(float(amount) * _UNITS[unit] for amount, unit in re.findall(r"(\d+(?:\.\d+)?)([a-zµ]+)", interval))
    if not seconds:
        return None
    if not int(burst):
        raise section.error("burst", "lets no request in", "give at least 1")
    return RateLimit(seconds, int(burst))


def _one_of(section: _Section, name: str, known: Mapping[str, str], value: str) -> str:
    if value not in known:
        raise section.error(name, f"names {printable(value)}, which is not known", f"use {', '.join(known)}")
    return known[value]


class _Section:
    """A mapping of the file; what was not asked for by the end is unknown.

    Nodes and not values are looked at: every text stands as it was written (a user may be called `no` or `1e3`), a
    name that stands twice is seen, and references cannot make much of little.
    """

    def __init__(self, file: Path, name: str, node: yaml.Node | None) -> None:
        self._file, self._name = file, name
        self._nodes: dict[str, yaml.Node] = {}
        self._asked: set[str] = set()
        if node is None or _is_null(node):
            return
        if not isinstance(node, yaml.MappingNode):
            raise self.error("", "is no mapping of names to values", "correct the file")
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise self.error("", "has a name that is no text", "correct the file")
            if key.value in self._nodes:
                raise self.error(key.value, "stands twice", "remove one")
            self._nodes[key.value] = value

    @property
    def empty(self) -> bool:
        return not self._nodes

    @property
    def names(self) -> list[str]:
        return list(self._nodes)

    def has(self, name: str) -> bool:
        return name in self._nodes

    def section(self, name: str) -> _Section:
        """Return a mapping in it; an empty one where it is absent."""
        return _Section(self._file, self._full(name), self._take(name))

    def text(self, name: str) -> str | None:
        """Return a text, number or truth value as it is written; None where it is absent."""
        node = self._take(name)
        if node is None or _is_null(node):
            return None
        if not isinstance(node, yaml.ScalarNode):
            raise self.error(name, "is no single value", "correct it")
        value = str(node.value)
        if "\0" in value or any("\ud800" <= each <= "\udfff" for each in value):
            raise self.error(name, "holds a character that no text can hold", "remove it")
        return value

    def texts(self, name: str) -> list[str]:
        """Return a list of texts; an empty one where it is absent."""
        node = self._take(name)
        if node is None or _is_null(node):
            return []
        if not isinstance(node, yaml.SequenceNode) or not all(isinstance(each, yaml.ScalarNode) for each in node.value):
            raise self.error(name, "is no list of names", "write each on a line of its own after a dash")
        return [str(each.value) for each in node.value]

    def flag(self, name: str, *, default: bool) -> bool:
        """Return a truth value."""
        value = self.text(name)
        if value is None:
            return default
        if value not in ("true", "false"):
            raise self.error(name, "is neither true nor false", "write one of them")
        return value == "true"

    def choice(self, name: str, known: Mapping[str, _T], default: str) -> _T:
        """Return what a known name stands for."""
        value = self.text(name) or default
        if value not in known:
            raise self.error(name, "is not known", f"use {', '.join(known)}")
        return known[value]

    def pem(self, name: str, *, needed: bool) -> Pem | None:
        """Return a certificate or key, which stands in the file or in one of its own."""
        text, file = self.text(name), self.text(f"{name}_file")
        if text and file:
            raise self.error(name, f"and {name}_file exclude each other", "give one of them")
        if file:
            return Pem(f"{name}_file", file=self._file.parent / file)
        if text:
            return Pem(name, text=text)
        if needed:
            raise self.error(f"{name}_file", "is missing", "give it, or leave tls_server_config out")
        return None

    def finish(self) -> None:
        """Refuse what nobody asked for.

        Raises:
            WrongUseError: There is something.
        """
        for name in self._nodes:
            if name not in self._asked:
                raise self.error(name, "is not a known setting", "remove it or correct its name")

    def error(self, name: str, what: str, to_do: str) -> WrongUseError:
        """Make the sentence about a setting."""
        return WrongUseError(f"{printable(str(self._file))}: {self._full(name) or 'it'} {what}; {to_do}")

    def _full(self, name: str) -> str:
        return ".".join(part for part in (self._name, printable(name)) if part)

    def _take(self, name: str) -> yaml.Node | None:
        self._asked.add(name)
        return self._nodes.get(name)


def _is_null(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.style is None and node.value in ("", "~", "null")
