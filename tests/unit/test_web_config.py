"""The file of --web.config.file: the format of Prometheus' exporters, each setting honoured or refused."""

from __future__ import annotations

import os
import re
import ssl
import subprocess
import sys
from pathlib import Path

import pytest

from pimetrics.errors import WrongUseError
from pimetrics.web.config import RateLimit, WebConfig
from pimetrics.web.configfile import load
from pimetrics.web.reload import LiveConfig
from tests.certificates import Authority

HASH = "$2y$10$mDwo.lAisC94iLAyP81MCesa29IzH37oigHC/42V2pdJlUprsJPze"
FILES = "  cert_file: server.pem\n  key_file: server.key\n"
TLS = f"tls_server_config:\n{FILES}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a server's certificate and key."""
    here = tmp_path_factory.mktemp("web")
    Authority(here).sign("server")
    return here


def written(folder: Path, text: str | bytes) -> Path:
    path = folder / "web.yml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_an_empty_file_asks_for_nothing(folder):
    """No setting is needed: plain HTTP for everyone."""
    for text in ("", "# nothing\n", "{}", "---\n", "basic_auth_users:\n", "http_server_config: {}\n", "~"):
        config = load(written(folder, text))
        assert config == WebConfig()
        assert not config.authenticates


def test_everything_at_once(folder):
    """All settings that can be honoured, in one file."""
    config = load(
        written(
            folder,
            TLS
            + "  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: authority.pem\n"
            + "  client_allowed_sans: [prom.example, '0:0::1']\n"
            + "  min_version: TLS12\n  max_version: TLS12\n"
            + "  cipher_suites:\n    - TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384\n    - TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA\n"
            + "  prefer_server_cipher_suites: false\n  curve_preferences: [CurveP384]\n"
            + "http_server_config:\n  http2: false\n  headers:\n    X-Frame-Options: deny\n    X-XSS-Protection: 0\n"
            + f"basic_auth_users:\n  alice: {HASH}\n  no: {HASH}\n"
            + "rate_limit:\n  interval: 1m0.5s\n  burst: 20\n",
        )
    )
    tls = config.tls
    assert tls is not None
    assert tls.files == (folder / "server.pem", folder / "server.key", folder / "authority.pem")
    assert tls.client_auth is ssl.CERT_REQUIRED
    assert tls.client_allowed_sans == {"prom.example", "::1"}
    assert (tls.min_version, tls.max_version) == (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_2)
    assert tls.ciphers == ("ECDHE-ECDSA-AES256-GCM-SHA384", "ECDHE-RSA-AES128-SHA")
    assert (tls.prefer_server_ciphers, tls.curve) == (False, "secp384r1")
    assert config.headers == {"X-Frame-Options": "deny", "X-XSS-Protection": "0"}
    assert config.users == {"alice": HASH, "no": HASH}  # a word, not YAML's false
    assert config.rate_limit == RateLimit(60.5, 20)
    assert config.authenticates


def test_defaults_of_tls(folder):
    """Without more than a certificate: TLS 1.2 and 1.3, nobody asked for a certificate."""
    tls = load(written(folder, TLS)).tls
    assert tls is not None
    assert (tls.min_version, tls.max_version) == (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)
    assert tls.client_auth is ssl.CERT_NONE
    assert tls.prefer_server_ciphers
    assert not load(written(folder, TLS)).authenticates


def test_relative_paths_start_at_the_file(folder, tmp_path, monkeypatch):
    """Where the command was called makes no difference."""
    monkeypatch.chdir(tmp_path)
    relative = os.path.relpath(written(folder, TLS))
    assert LiveConfig(Path(relative)).scheme == "https"


def test_certificates_may_stand_in_the_file_itself(folder):
    """`cert`, `key` and `client_ca` take the PEM; nothing of it is left on disk."""

    def inline(name: str) -> str:
        return (folder / name).read_text().replace("\n", "\n    ")

    text = (
        f"tls_server_config:\n  cert: |\n    {inline('server.pem')}\n  key: |\n    {inline('server.key')}\n"
        f"  client_ca: |\n    {inline('authority.pem')}\n  client_auth_type: VerifyClientCertIfGiven\n"
    )
    live = LiveConfig(written(folder, text))
    assert live.context is not None
    assert live.context.verify_mode is ssl.CERT_OPTIONAL
    assert live.context.cert_store_stats()["x509_ca"] == 1
    assert live.config.files == ()


def test_blank_headers_are_unset(folder):
    """As the format says."""
    text = "http_server_config:\n  headers:\n    X-Frame-Options:\n    Content-Security-Policy: ''\n"
    assert load(written(folder, text)).headers == {}


KNOWN = {
    "tls_server_config": [
        *("cert", "key", "client_ca", "cert_file", "key_file", "client_auth_type", "client_ca_file"),
        *("client_allowed_sans", "min_version", "max_version", "cipher_suites", "prefer_server_cipher_suites"),
        "curve_preferences",
    ],
    "http_server_config": ["http2", "headers"],
    "rate_limit": ["interval", "burst"],
}


def with_setting(section: str, line: str) -> str:
    base = {"tls_server_config": FILES if not re.match(r"(cert|key)(_file)?:", line) else "  key_file: server.key\n"}
    if line.startswith("key"):
        base["tls_server_config"] = "  cert_file: server.pem\n"
    return f"{section}:\n{base.get(section, '')}  {line}\n"


MALFORMED = {
    **{f"{section}.{name} {kind}": (with_setting(section, f"{name}: {value}"), f"{section}.{name}")
       for section, names in KNOWN.items()
       for name in names
       for kind, value in (("mapping", "{a: b}"), ("nested list", "[[a]]"))},
    **{f"{section}.{name} list": (with_setting(section, f"{name}: [a]"), f"{section}.{name} ")
       for section, names in KNOWN.items()
       for name in names},
    **{f"{section}.{name} twice": (f"{section}:\n  {name}: a\n  {name}: a\n", f"{section}.{name} stands twice")
       for section, names in KNOWN.items()
       for name in names},
    **{f"{section} {kind}": (f"{section}: {value}\n", f"{section} ")
       for section in ("tls_server_config", "http_server_config", "basic_auth_users", "rate_limit")
       for kind, value in (("text", "a"), ("list", "[a]"), ("number", "1"))},
    **{f"{section} unknown": (with_setting(section, "colour: blue"), f"{section}.colour is not a known setting")
       for section in KNOWN},
    "top unknown": ("colour: blue\n", "colour is not a known setting"),
    "top list": ("- a\n", "it is no mapping"),
    "top text": ("abc\n", "it is no mapping"),
    "merge": (TLS + "  <<: {min_version: TLS13}\n", "tls_server_config.<< is not a known setting"),
    "section twice": ("rate_limit: {}\nrate_limit: {}\n", "rate_limit stands twice"),
    "name no text": ("? [a]\n: b\n", "a name that is no text"),
    "two documents": ("a: b\n---\na: b\n", "no YAML"),
    "tab": ("tls_server_config:\n\tcert_file: a\n", "line 2: this is no YAML"),
    "open quote": ("a: 'b\n", "no YAML"),
    "no utf-8": (b"a: \xff\xfe\xfa\n", "no YAML"),
    "deep": ("[" * 5_000, "no YAML"),
    "unknown alias": ("a: *b\n", "no YAML"),
    "too large": ("#" * (1 << 20) + "\n", "larger than 1 MiB"),
    "tls empty": ("tls_server_config:\n", "tls_server_config is empty"),
    "tls empty mapping": ("tls_server_config: {}\n", "tls_server_config is empty"),
    "no cert": ("tls_server_config:\n  key_file: server.key\n", "tls_server_config.cert_file is missing"),
    "no key": ("tls_server_config:\n  cert_file: server.pem\n", "tls_server_config.key_file is missing"),
    "only a version": ("tls_server_config:\n  min_version: TLS13\n", "cert_file is missing"),
    "cert both ways": (TLS + "  cert: x\n", "tls_server_config.cert and cert_file exclude each other"),
    "key both ways": (TLS + "  key: x\n", "tls_server_config.key and key_file exclude each other"),
    "NUL in a path": ('tls_server_config:\n  cert_file: "a\\0b"\n  key_file: server.key\n', "cert_file holds a character"),
    "surrogate": ('tls_server_config:\n  cert_file: "\\ud800"\n  key_file: server.key\n', "cert_file holds a character"),
    "auth type": (TLS + "  client_auth_type: Sometimes\n", "client_auth_type is not known; use NoClientCert"),
    "auth RequestClientCert": (TLS + "  client_auth_type: RequestClientCert\n", "Python's ssl cannot do"),
    "auth RequireAnyClientCert": (TLS + "  client_auth_type: RequireAnyClientCert\n", "Python's ssl cannot do"),
    "auth RequireClientCert": (TLS + "  client_auth_type: RequireClientCert\n", "Python's ssl cannot do"),
    "auth without ca": (TLS + "  client_auth_type: RequireAndVerifyClientCert\n", "give client_ca_file"),
    "ca without auth": (TLS + "  client_ca_file: authority.pem\n", "client_ca_file has no use here"),
    "sans without auth": (TLS + "  client_allowed_sans: [a]\n", "client_allowed_sans needs a certificate"),
    "sans with optional": (
        TLS + "  client_auth_type: VerifyClientCertIfGiven\n  client_ca_file: authority.pem\n  client_allowed_sans: [a]\n",
        "client_allowed_sans needs a certificate",
    ),
    "min unknown": (TLS + "  min_version: TLS14\n", "min_version is not known"),
    "max unknown": (TLS + "  max_version: SSL30\n", "max_version is not known"),
    "min TLS10": (TLS + "  min_version: TLS10\n", "min_version is a version that OpenSSL no longer speaks"),
    "max TLS11": (TLS + "  max_version: TLS11\n", "max_version is a version that OpenSSL no longer speaks"),
    "min above max": (TLS + "  min_version: TLS13\n  max_version: TLS12\n", "min_version is above max_version"),
    "cipher unknown": (TLS + "  cipher_suites: [ROT13]\n", "cipher_suites names ROT13, which is not known"),
    "cipher of 1.3": (TLS + "  cipher_suites: [TLS_AES_128_GCM_SHA256]\n", "whose suites cannot be chosen"),
    "cipher insecure": (TLS + "  cipher_suites: [TLS_RSA_WITH_RC4_128_SHA]\n", "not known"),
    "prefer": (TLS + "  prefer_server_cipher_suites: maybe\n", "is neither true nor false"),
    "prefer yes": (TLS + "  prefer_server_cipher_suites: yes\n", "is neither true nor false"),
    "curve unknown": (TLS + "  curve_preferences: [Curve25519]\n", "names Curve25519, which is not known"),
    "curves": (TLS + "  curve_preferences: [X25519, CurveP256]\n", "Python's ssl can set one"),
    "http2": ("http_server_config:\n  http2: true\n", "http2 cannot be on, because pimetrics speaks HTTP/1.1"),
    "http2 word": ("http_server_config:\n  http2: on\n", "is neither true nor false"),
    "header unknown": ("http_server_config:\n  headers:\n    Server: x\n", "headers.Server is not a known setting"),
    "header case": ("http_server_config:\n  headers:\n    x-frame-options: deny\n", "not a known setting"),
    "headers text": ("http_server_config:\n  headers: deny\n", "headers is no mapping"),
    "frame": ("http_server_config:\n  headers:\n    X-Frame-Options: all\n", "use deny or sameorigin"),
    "sniff": ("http_server_config:\n  headers:\n    X-Content-Type-Options: sniff\n", "use nosniff"),
    "header line": ('http_server_config:\n  headers:\n    X-XSS-Protection: "a\\nb"\n', "no header can hold"),
    "header umlaut": ("http_server_config:\n  headers:\n    X-XSS-Protection: ä\n", "no header can hold"),
    "header list": ("http_server_config:\n  headers:\n    X-XSS-Protection: [a]\n", "is no single value"),
    "user plain": ("basic_auth_users:\n  alice: hunter2\n", "basic_auth_users.alice is no bcrypt hash"),
    "user empty": ("basic_auth_users:\n  alice:\n", "basic_auth_users.alice is no bcrypt hash"),
    "user cost 3": (f"basic_auth_users:\n  alice: {HASH.replace('$10$', '$03$')}\n", "is no bcrypt hash"),
    "user cost 32": (f"basic_auth_users:\n  alice: {HASH.replace('$10$', '$32$')}\n", "is no bcrypt hash"),
    "user short": (f"basic_auth_users:\n  alice: {HASH[:-1]}\n", "is no bcrypt hash"),
    "user salt": (f"basic_auth_users:\n  alice: $2y$10${'z' * 53}\n", "is no bcrypt hash"),
    "user sha": ("basic_auth_users:\n  alice: $6$abc$def\n", "is no bcrypt hash"),
    "user list": (f"basic_auth_users:\n  alice: [{HASH}]\n", "is no single value"),
    "user colon": (f"basic_auth_users:\n  'a:b': {HASH}\n", "holds a colon"),
    "user twice": (f"basic_auth_users:\n  alice: {HASH}\n  alice: {HASH}\n", "basic_auth_users.alice stands twice"),
    "user hostile": ('basic_auth_users:\n  "\\e[31m": x\n', "basic_auth_users."),
    "interval": ("rate_limit:\n  interval: soon\n  burst: 1\n", "interval is no duration"),
    "interval without unit": ("rate_limit:\n  interval: 5\n  burst: 1\n", "interval is no duration"),
    "interval negative": ("rate_limit:\n  interval: -1s\n  burst: 1\n", "interval is no duration"),
    "burst": ("rate_limit:\n  interval: 1s\n  burst: many\n", "burst is no number"),
    "burst half": ("rate_limit:\n  interval: 1s\n  burst: 1.5\n", "burst is no number"),
    "burst none": ("rate_limit:\n  interval: 1s\n", "burst lets no request in"),
    "cert absent": ("tls_server_config:\n  cert_file: no.pem\n  key_file: server.key\n", "cannot read cert_file"),
    "key absent": ("tls_server_config:\n  cert_file: server.pem\n  key_file: no.key\n", "cannot read key_file"),
    "cert folder": ("tls_server_config:\n  cert_file: .\n  key_file: server.key\n", "is no file; give a PEM file"),
    "cert no PEM": ("tls_server_config:\n  cert_file: web.yml\n  key_file: server.key\n", "give a PEM certificate"),
    "key no PEM": ("tls_server_config:\n  cert_file: server.pem\n  key_file: web.yml\n", "give a PEM certificate"),
    "inline no PEM": ("tls_server_config:\n  cert: x\n  key: y\n", "no certificate and key in cert and key"),
    "ca absent": (TLS + "  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: no.pem\n", "client_ca_file"),
    "ca no PEM": (
        TLS + "  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: web.yml\n", "no certificate in client_ca_file"
    ),
    "ca inline no PEM": (
        TLS + "  client_auth_type: RequireAndVerifyClientCert\n  client_ca: x\n", "no certificate in client_ca;"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_is_refused_in_one_sentence(folder, name):
    """What is unknown, malformed, or beyond Python's ssl is said in one sentence that tells where and what to do."""
    text, part = MALFORMED[name]
    with pytest.raises(WrongUseError) as caught:
        LiveConfig(written(folder, text))
    sentence = str(caught.value)
    assert part in sentence
    assert "; " in sentence, "says what to do"
    assert sentence.isprintable()
    assert "hunter2" not in sentence


def test_every_setting_of_the_format_is_tried(folder):
    """Each known setting has its malformed variants above, so that a new one does not go untested."""
    for section, names in KNOWN.items():
        for name in names:
            assert {f"{section}.{name} mapping", f"{section}.{name} twice"} <= set(MALFORMED)


def test_a_key_of_another_certificate_is_refused(folder, tmp_path):
    """Certificate and key that do not belong together are said to be that."""
    Authority(tmp_path).sign("server")
    other = tmp_path / "server.key"
    with pytest.raises(WrongUseError, match="does not belong to the certificate"):
        LiveConfig(written(folder, f"tls_server_config:\n  cert_file: server.pem\n  key_file: {other}\n"))


def test_an_encrypted_key_asks_nobody(folder, tmp_path):
    """A key with a password is refused; no prompt waits at the terminal."""
    signed = Authority(tmp_path).sign("locked", password=b"secret")
    with pytest.raises(WrongUseError, match="PEM key without a password"):
        LiveConfig(written(folder, f"tls_server_config:\n  cert_file: {signed.cert}\n  key_file: {signed.key}\n"))


def test_what_is_no_file_is_not_waited_for(tmp_path):
    """A FIFO, a folder, nothing at all, and a certificate that is a FIFO: refused at once."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    (tmp_path / "web.yml").write_text("tls_server_config:\n  cert_file: fifo\n  key_file: fifo\n")
    for path, part in (
        (fifo, "is no file"),
        (tmp_path, "directory"),
        (tmp_path / "no", "No such"),
        (tmp_path / "web.yml", "is no file"),
    ):
        with pytest.raises(WrongUseError, match=part):
            LiveConfig(path)


@pytest.mark.parametrize(
    "text", ["colour: blue\n", "basic_auth_users:\n  alice: hunter2\n", TLS + "  curve_preferences: [a, b]\n"]
)
def test_a_bad_file_is_wrong_use(folder, text):
    """`serve` ends with status 2 and the sentence, before it listens or reads."""
    done = subprocess.run(
        [sys.executable, "-m", "pimetrics", "serve", folder, "--no-state", "--web.config.file", written(folder, text)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        stdin=subprocess.DEVNULL,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(r"pimetrics: [^\n]+web\.yml: [^\n]+; [^\n]+\n", done.stderr)
