"""Certificates made when a test needs them: an authority, and what it signs."""

from __future__ import annotations

import datetime as dt
import ipaddress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


@dataclass(frozen=True)
class Signed:
    """A certificate and its key, as PEM files."""

    cert: Path
    key: Path


class Authority:
    """Signs certificates into a folder."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"{name} of the tests")])
        self.cert = folder / f"{name}.pem"
        made = self._sign(self._name, self._key.public_key(), [], ca=True)
        self.cert.write_bytes(made.public_bytes(serialization.Encoding.PEM))

    @classmethod
    def new(cls, folder: Path, name: str = "authority") -> Self:
        """Make one in a folder that may not exist."""
        folder.mkdir(parents=True, exist_ok=True)
        return cls(folder, name)

    def sign(self, name: str, *also: x509.GeneralName, password: bytes | None = None) -> Signed:
        """Make a certificate for localhost, 127.0.0.1 and more."""
        key = ec.generate_private_key(ec.SECP256R1())
        local = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        made = self._sign(
            x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]), key.public_key(), [*also] or local, ca=False
        )
        signed = Signed(self._folder / f"{name}.pem", self._folder / f"{name}.key")
        signed.cert.write_bytes(made.public_bytes(serialization.Encoding.PEM))
        lock = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
        signed.key.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, lock))
        return signed

    def _sign(
        self, subject: x509.Name, key: ec.EllipticCurvePublicKey, names: list[x509.GeneralName], *, ca: bool
    ) -> x509.Certificate:
        now = dt.datetime.now(dt.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(hours=1))
            .not_valid_after(now + dt.timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )
        if ca:
            usage = x509.KeyUsage(
                digital_signature=True,
                key_cert_sign=True,
                crl_sign=True,
                content_commitment=False,
                key_encipherment=False,
                data_encipherment=False,
                key_agreement=False,
                encipher_only=False,
                decipher_only=False,
            )
            builder = builder.add_extension(usage, critical=True)
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return builder.sign(self._key, hashes.SHA256())
