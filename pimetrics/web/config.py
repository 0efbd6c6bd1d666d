"""What a web configuration may ask for, as values: TLS, headers, users, a rate."""

from __future__ import annotations

import ipaddress
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Pem:
    """Certificates or a key.

    Attributes:
        setting: What it is called in the configuration.
        file: Where it stands, if in a file of its own.
        text: The PEM itself, if not.
    """

    setting: str
    file: Path | None = None
    text: str = ""


@dataclass(frozen=True, slots=True)
class Tls:
    """The part `tls_server_config`; see the format for what each field means."""

    cert: Pem
    key: Pem
    client_ca: Pem | None
    client_auth: ssl.VerifyMode
    client_allowed_sans: frozenset[str]
    min_version: ssl.TLSVersion
    max_version: ssl.TLSVersion
    ciphers: tuple[str, ...]
    prefer_server_ciphers: bool
    curve: str | None

    @property
    def authenticates(self) -> bool:
        """Whether nobody gets in without a certificate."""
        return self.client_auth is ssl.CERT_REQUIRED

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that it names."""
        return tuple(
            pem.file for pem in (self.cert, self.key, self.client_ca) if pem is not None and pem.file is not None
        )

    def allows(self, certificate: Mapping[str, Any] | None) -> bool:
        """Whether a client whose certificate was verified may go on.

        Args:
            certificate: As `SSLSocket.getpeercert` gives it.
        """
        if not self.client_allowed_sans:
            return True
        names = (certificate or {}).get("subjectAltName", ())
        return any(_written(kind, name) in self.client_allowed_sans for kind, name in names)


@dataclass(frozen=True, slots=True)
class RateLimit:
    """A token bucket for all requests together.

    Attributes:
        interval_s: A request more is allowed each so many seconds.
        burst: So many may come at once.
    """

    interval_s: float
    burst: int


@dataclass(frozen=True, slots=True)
class WebConfig:
    """What a web configuration asks for; without arguments: plain HTTP for everyone.

    Attributes:
        tls: Certificates and versions; None for plain HTTP.
        headers: Headers that every response gets.
        users: bcrypt hashes of the passwords, by user name; empty when no password is asked for.
        rate_limit: How many requests are answered.
    """

    tls: Tls | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    users: Mapping[str, str] = field(default_factory=dict)
    rate_limit: RateLimit | None = None

    @property
    def authenticates(self) -> bool:
        """Whether nobody gets in without a password or a certificate."""
        return bool(self.users) or (self.tls is not None and self.tls.authenticates)

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that it names."""
        return self.tls.files if self.tls is not None else ()


def _written(kind: str, name: str) -> str:
    """Write a name of a certificate as the configuration does: addresses in their short form."""
    if kind != "IP Address":
        return name
    try:
        return str(ipaddress.ip_address(name.strip()))
    except ValueError:
        return name
