"""A real Prometheus scrapes over TLS: with a password, with a client certificate, and without either."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import bcrypt
import pytest
from cryptography import x509

from tests.certificates import Authority
from tests.live.parts import program as installed
from tests.live.prometheus import exporter, prometheus, until

if TYPE_CHECKING:
    from pathlib import Path

TLS = "tls_server_config:\n  cert_file: server.pem\n  key_file: server.key\n"
SESSION = (
    {"type": "session", "version": 3, "id": "s", "timestamp": "2026-11-29T10:00:00.000Z", "cwd": "/srv"},
    {
        "type": "message",
        "id": "a1b2c3d4",
        "parentId": None,
        "timestamp": "2026-11-29T10:00:05.000Z",
        "message": {
            "role": "assistant",
            "content": [],
            "api": "x",
            "provider": "ember",
            "model": "ember-1",
            "usage": {
                "input": 11,
                "output": 7,
                "cacheRead": 0,
                "cacheWrite": 0,
                "totalTokens": 18,
                "cost": {"total": 0.5},
            },
            "stopReason": "stop",
            "timestamp": 1795946400000,
        },
    },
)


@pytest.fixture(scope="module")
def prometheus_program() -> str:
    """The installed Prometheus."""
    return installed("prometheus", "prometheus")


class Site:
    """A session, certificates and a web configuration."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.session = folder / "session.jsonl"
        self.session.write_text("".join(json.dumps(each) + "\n" for each in SESSION))
        self.authority = Authority.new(folder / "web")
        self.authority.sign("server")

    def options(self, text: str) -> tuple[str, ...]:
        """Write the web configuration and return the options of a `serve` that uses it."""
        file = self.folder / "web" / "web.yml"
        file.write_text(text)
        return ("--no-state", "--web.zero-hold", "0s", "--web.config.file", str(file))

    def job(self, **more: object) -> dict[str, object]:
        """Return what Prometheus is told about the target: TLS, and who it is."""
        identity = more.pop("identity", {})
        assert isinstance(identity, dict)
        return {"scheme": "https", "tls_config": {"ca_file": str(self.authority.cert), **identity}, **more}


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """A new one."""
    return Site(tmp_path)


def test_a_password_lets_it_in_and_its_absence_does_not(site: Site, tmp_path: Path, prometheus_program: str) -> None:
    """With the password it scrapes what pi did; without, or with another, the target is down with 401."""
    hashed = bcrypt.hashpw(b"right", bcrypt.gensalt(10)).decode()
    options = site.options(f"{TLS}basic_auth_users:\n  prometheus: {hashed}\n")
    login = {"username": "prometheus", "password": "right"}
    jobs = {
        "pi": site.job(basic_auth=login),
        "nobody": site.job(),
        "wrong": site.job(basic_auth=login | {"password": "wrong"}),
    }
    with (
        exporter(tmp_path, site.session, options=options, secured=True) as address,
        prometheus(prometheus_program, tmp_path, address, interval="1s", jobs=jobs) as server,
    ):
        until(lambda: server.total("sum(pi_cost_usd_total)") == 0.5, "the cost is scraped, once")
        for job in ("nobody", "wrong"):
            until(lambda job=job: "401 Unauthorized" in server.last_error(job), f"{job} is turned away")
        assert server.total("sum(up)") == 1


def test_a_client_certificate_lets_it_in_and_its_absence_does_not(
    site: Site, tmp_path: Path, prometheus_program: str
) -> None:
    """With a certificate of the authority and an allowed name it scrapes; without, of another, by another name: down."""
    options = site.options(
        f"{TLS}  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: authority.pem\n"
        "  client_allowed_sans: [prometheus.example]\n"
    )
    name = x509.DNSName("prometheus.example")
    stranger = Authority.new(tmp_path / "strangers").sign("stranger", name)
    unnamed = site.authority.sign("unnamed", x509.DNSName("other.example"))
    known = site.authority.sign("known", name)
    jobs = {"nobody": site.job()} | {
        job: site.job(identity={"cert_file": str(signed.cert), "key_file": str(signed.key)})
        for job, signed in (("pi", known), ("stranger", stranger), ("unnamed", unnamed))
    }
    with (
        exporter(tmp_path, site.session, options=options, secured=True) as address,
        prometheus(prometheus_program, tmp_path, address, interval="1s", jobs=jobs) as server,
    ):
        until(lambda: server.total("sum(pi_cost_usd_total)") == 0.5, "the cost is scraped, once")
        for job, why in (
            ("nobody", "certificate required"),
            ("stranger", "unknown certificate authority"),
            ("unnamed", ""),
        ):
            until(lambda job=job, why=why: why in server.last_error(job) != "", f"{job} is turned away")
        assert server.total("sum(up)") == 1
