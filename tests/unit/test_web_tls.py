"""TLS as configured: what a client can and cannot agree on with the server."""

from __future__ import annotations

import ipaddress
import ssl

import pytest
from cryptography import x509

from pimetrics.web.configfile import load
from pimetrics.web.tls import CIPHER_SUITES, CURVES, make_context
from tests.certificates import Authority

CLIENTS = "  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: authority.pem\n"


class Site:
    def __init__(self, folder):
        self.folder = folder
        self.authority = Authority(folder)
        self.authority.sign("server")
        self.known = self.authority.sign("known", x509.DNSName("prometheus.example"))

    def tls(self, more: str = ""):
        file = self.folder / "web.yml"
        file.write_text(f"tls_server_config:\n  cert_file: server.pem\n  key_file: server.key\n{more}")
        found = load(file).tls
        assert found is not None
        return found

    def client(self, **settings) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.authority.cert)
        for name, value in settings.items():
            setattr(context, name, value)
        return context


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    return Site(tmp_path_factory.mktemp("tls"))


def shake_hands(server: ssl.SSLContext, client: ssl.SSLContext) -> tuple[ssl.SSLObject, ssl.SSLObject]:
    """Let two contexts agree in memory; raises SSLError when they do not."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = (
        server.wrap_bio(to_server, to_client, server_side=True),
        client.wrap_bio(to_client, to_server, server_hostname="localhost"),
    )
    done = [False, False]
    for _ in range(10):
        for which, end in enumerate(ends):
            try:
                end.do_handshake()
                done[which] = True
            except ssl.SSLWantReadError:
                continue
        if all(done):
            return ends
    raise AssertionError("the handshake does not end")


def test_versions(site):
    """Without a word TLS 1.2 and 1.3; min_version and max_version leave one of them."""
    old, new = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3
    for more, agreed in (("", {old, new}), ("  min_version: TLS13\n", {new}), ("  max_version: TLS12\n", {old})):
        context = make_context(site.tls(more))
        for version in (old, new):
            client = site.client(minimum_version=version, maximum_version=version)
            if version in agreed:
                shake_hands(context, client)
            else:
                with pytest.raises(ssl.SSLError):
                    shake_hands(context, client)


def test_cipher_suites(site):
    """Of TLS 1.2 only those named are spoken, in the server's order or the client's; TLS 1.3 is as it was."""
    ours = ["TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"]
    theirs = "ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384"
    for prefer, agreed in (("true", CIPHER_SUITES[ours[0]]), ("false", CIPHER_SUITES[ours[1]])):
        context = make_context(
            site.tls(f"  cipher_suites: [{', '.join(ours)}]\n  prefer_server_cipher_suites: {prefer}\n")
        )
        client = site.client(maximum_version=ssl.TLSVersion.TLSv1_2)
        client.set_ciphers(theirs)
        server, _ = shake_hands(context, client)
        assert server.cipher()[0] == agreed
        client.set_ciphers("ECDHE-ECDSA-CHACHA20-POLY1305")
        with pytest.raises(ssl.SSLError):
            shake_hands(context, client)
        assert shake_hands(context, site.client())[0].version() == "TLSv1.3"


def test_every_cipher_suite_and_curve_is_known_to_openssl(site):
    """Each name of the format can be set."""
    for name in CIPHER_SUITES:
        context = make_context(site.tls(f"  cipher_suites: [{name}]\n"))
        assert CIPHER_SUITES[name] in {each["name"] for each in context.get_ciphers()}
    for name, curve in CURVES.items():
        context = make_context(site.tls(f"  curve_preferences: [{name}]\n"))
        client = site.client()
        client.set_ecdh_curve(curve)
        shake_hands(context, client)
        other = site.client()
        other.set_ecdh_curve("secp521r1" if curve != "secp521r1" else "secp384r1")
        with pytest.raises(ssl.SSLError):
            shake_hands(context, other)


def test_client_certificates(site, tmp_path):
    """Required: only those of the authority. If given: the same, or none. Not asked for: anyone."""
    stranger = Authority(tmp_path).sign("stranger")
    optional = CLIENTS.replace("RequireAndVerifyClientCert", "VerifyClientCertIfGiven")
    for more, nobody, strange in (("", True, True), (optional, True, False), (CLIENTS, False, False)):
        context = make_context(site.tls(more))
        for signed, agreed in ((None, nobody), (stranger, strange), (site.known, True)):
            client = site.client(maximum_version=ssl.TLSVersion.TLSv1_2)  # in 1.3 the client's end comes first
            if signed is not None:
                client.load_cert_chain(signed.cert, signed.key)
            if agreed:
                shake_hands(context, client)
            else:
                with pytest.raises(ssl.SSLError):
                    shake_hands(context, client)
    assert site.tls(CLIENTS).authenticates
    assert not site.tls(optional).authenticates


def test_a_certificate_that_is_no_root_can_be_trusted(site):
    """As in Go, client_ca_file may name the client's own certificate."""
    context = make_context(site.tls(CLIENTS.replace("authority.pem", "known.pem")))
    client = site.client(maximum_version=ssl.TLSVersion.TLSv1_2)
    client.load_cert_chain(site.known.cert, site.known.key)
    shake_hands(context, client)


@pytest.mark.parametrize(
    ("name", "allowed"),
    [
        (x509.DNSName("prometheus.example"), "prometheus.example"),
        (x509.IPAddress(ipaddress.ip_address("10.1.2.3")), "10.1.2.3"),
        (x509.IPAddress(ipaddress.ip_address("2001:db8::1")), "2001:DB8:0::1"),
        (x509.RFC822Name("prom@example.org"), "prom@example.org"),
        (x509.UniformResourceIdentifier("spiffe://example/prom"), "spiffe://example/prom"),
    ],
    ids=lambda each: each if isinstance(each, str) else type(each).__name__,
)
def test_allowed_names(site, name, allowed):
    """A name of the certificate, of any kind, must be equal to one that is allowed."""
    signed = site.authority.sign("named", x509.DNSName("first.example"), name)
    client = site.client()
    client.load_cert_chain(signed.cert, signed.key)
    tls = site.tls(f"{CLIENTS}  client_allowed_sans: [other.example, '{allowed}']\n")
    server, end = shake_hands(make_context(tls), client)
    end.write(b"x")
    server.read()
    assert tls.allows(server.getpeercert())
    assert not site.tls(f"{CLIENTS}  client_allowed_sans: ['{allowed}2', '*.example']\n").allows(server.getpeercert())
    assert not tls.allows(None)
    assert site.tls(CLIENTS).allows(None)
