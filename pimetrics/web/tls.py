"""TLS as a web configuration asks for it: names of Go and the shared format -> Python's ssl."""

from __future__ import annotations

import contextlib
import os
import re
import ssl
import stat
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from pimetrics.errors import WrongUseError
from pimetrics.names import printable
from pimetrics.web.config import Pem, Tls

CLIENT_AUTH: Final[Mapping[str, ssl.VerifyMode | None]] = {
    "NoClientCert": ssl.CERT_NONE,
    "RequestClientCert": None,
    "RequireClientCert": None,
    "RequireAnyClientCert": None,
    "VerifyClientCertIfGiven": ssl.CERT_OPTIONAL,
    "RequireAndVerifyClientCert": ssl.CERT_REQUIRED,
}
"""None: Python's ssl cannot do it."""

VERSIONS: Final[Mapping[str, ssl.TLSVersion | None]] = {
    "TLS10": None,
    "TLS11": None,
    "TLS12": ssl.TLSVersion.TLSv1_2,
    "TLS13": ssl.TLSVersion.TLSv1_3,
}
"""None: OpenSSL 3 does not speak it at any usual security level."""

CIPHER_SUITES: Final[Mapping[str, str]] = {
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA": "ECDHE-ECDSA-AES128-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA": "ECDHE-ECDSA-AES256-SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA": "ECDHE-RSA-AES128-SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA": "ECDHE-RSA-AES256-SHA",
}
"""Suites of TLS 1.2 that Go does not call insecure, and OpenSSL's names for them."""

CURVES: Final[Mapping[str, str]] = {
    "CurveP256": "prime256v1",
    "CurveP384": "secp384r1",
    "CurveP521": "secp521r1",
    "X25519": "X25519",
}


def make_context(tls: Tls) -> ssl.SSLContext:
    """Build what a server needs to speak TLS.

    Raises:
        WrongUseError: A certificate or key cannot be read, or they do not fit together.
    """
    for pem in (tls.cert, tls.key, tls.client_ca):
        _check_readable(pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version, context.maximum_version = tls.min_version, tls.max_version
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
    if tls.prefer_server_ciphers:
        context.options |= ssl.OP_CIPHER_SERVER_PREFERENCE
    else:
        context.options &= ~ssl.OP_CIPHER_SERVER_PREFERENCE
    if tls.ciphers:
        context.set_ciphers(":".join(tls.ciphers))
    if tls.curve is not None:
        context.set_ecdh_curve(tls.curve)
    context.set_alpn_protocols(["http/1.1"])
    _load_certificate(context, tls)
    if tls.client_ca is not None:
        _load_client_ca(context, tls.client_ca)
        # As in Go: whatever stands in the file is trusted, also when it is no root.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.verify_mode = tls.client_auth
    return context


def _load_certificate(context: ssl.SSLContext, tls: Tls) -> None:
    with _as_file(tls.cert) as cert, _as_file(tls.key) as key:
        try:
            context.load_cert_chain(cert, key, password="")  # an encrypted key fails instead of asking the terminal
        except ssl.SSLError as error:
            if error.reason in ("KEY_VALUES_MISMATCH", "KEY_TYPE_MISMATCH"):
                raise WrongUseError(
                    f"the key {_place(tls.key)} does not belong to the certificate {_place(tls.cert)}; "
                    "give the two that belong together"
                ) from None
            raise WrongUseError(
                f"no certificate and key in {_place(tls.cert)} and {_place(tls.key)} ({error.reason or 'no PEM'}); "
                "give a PEM certificate and its PEM key without a password"
            ) from None


def _load_client_ca(context: ssl.SSLContext, ca: Pem) -> None:
    blocks = re.findall(r"-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----", ca.text)
    try:
        if ca.file is not None:
            context.load_verify_locations(cafile=ca.file)
        else:
            context.load_verify_locations(cadata="\n".join(blocks))
    except (ssl.SSLError, ValueError):
        raise WrongUseError(
            f"no certificate in {_place(ca)}; give PEM certificates of those who sign clients"
        ) from None


def _check_readable(pem: Pem | None) -> None:
    if pem is None or pem.file is None:
        return
    try:
        if not stat.S_ISREG(os.stat(pem.file).st_mode):  # OpenSSL would wait at a FIFO for ever
            raise WrongUseError(f"{_place(pem)} is no file; give a PEM file")
        os.close(os.open(pem.file, os.O_RDONLY))
    except OSError as error:
        raise WrongUseError(
            f"cannot read {_place(pem)} ({error.strerror}); check the path and its permissions"
        ) from None


@contextlib.contextmanager
def _as_file(pem: Pem) -> Iterator[Path]:
    """Give the path of a PEM: ssl reads certificates and keys from files only."""
    if pem.file is not None:
        yield pem.file
        return
    with tempfile.TemporaryDirectory(prefix="pimetrics-") as folder:  # its owner's alone
        path = Path(folder) / "pem"
        path.write_text(pem.text, encoding="utf-8")
        yield path


def _place(pem: Pem) -> str:
    return pem.setting if pem.file is None else f"{pem.setting} {printable(str(pem.file))}"
