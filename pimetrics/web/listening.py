"""Where `serve` listens, and who can reach it there."""

from __future__ import annotations

import errno
import ipaddress
import logging
import socket
from typing import Final

from pimetrics.errors import WrongUseError
from pimetrics.names import printable
from pimetrics.web.config import WebConfig

_BACKLOG: Final = 4096
"""Connections that may wait to be taken; of a crowd that comes at once, those above come again a second later."""

_LOGGER: Final = logging.getLogger("pimetrics")


def listen(address: str) -> socket.socket:
    """Open the listening socket.

    Raises:
        WrongUseError: The address is no address, or cannot be listened on.
    """
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    if not port.isdecimal() or int(port) > 65535:
        raise WrongUseError(
            f"{printable(address)} is no address to listen on; give HOST:PORT, for example 127.0.0.1:9746"
        )
    try:
        family, kind, proto, _, where = socket.getaddrinfo(
            host or None, int(port), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, proto)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(where)
        listener.listen(_BACKLOG)
    except OSError as error:
        if isinstance(error, socket.gaierror):
            what_to_do = "check the host"
        elif error.errno == errno.EACCES:
            what_to_do = "choose a port above 1023 with --web.listen-address"
        else:
            what_to_do = "stop what uses that port or choose another with --web.listen-address"
        raise WrongUseError(
            f"cannot listen on {printable(address)} ({error.strerror or error}); {what_to_do}"
        ) from None
    return listener


def shown(listener: socket.socket) -> str:
    """Write where a socket listens, as URLs do."""
    host, port = listener.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_loopback(listener: socket.socket) -> bool:
    """Whether only this machine can connect."""
    address = ipaddress.ip_address(listener.getsockname()[0].partition("%")[0])
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback


def warn_if_open(listener: socket.socket, config: WebConfig) -> None:
    """Say once when others can read what is served, or the passwords that are sent."""
    if is_loopback(listener):
        return
    if not config.authenticates:
        what = f"anyone who can reach {shown(listener)} reads what pi did and cost"
        to_do = "ask for passwords or certificates with --web.config.file, or listen on 127.0.0.1"
    elif config.tls is None:
        what = f"passwords for {shown(listener)} cross the network as plain text"
        to_do = "add tls_server_config to the web configuration"
    else:
        return
    _LOGGER.warning("%s; %s", what, to_do, extra={"reason": "web_open"})
