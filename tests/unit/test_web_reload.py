"""The configuration in force follows its file, certificates included."""

from __future__ import annotations

import logging

import pytest

from pimetrics.errors import WrongUseError
from pimetrics.web.reload import LiveConfig
from tests.certificates import Authority

HASH = "$2y$10$mDwo.lAisC94iLAyP81MCesa29IzH37oigHC/42V2pdJlUprsJPze"
TLS = "tls_server_config:\n  cert_file: server.pem\n  key_file: server.key\n"


@pytest.fixture
def site(tmp_path, caplog):
    """A folder with certificates, a way to write the file, and what was logged."""
    caplog.set_level(logging.INFO, logger="pimetrics")
    authority = Authority(tmp_path)
    authority.sign("server")

    class Site:
        file = tmp_path / "web.yml"
        sign = staticmethod(authority.sign)
        said = property(lambda _: [each.getMessage() for each in caplog.records])

        def write(self, text):
            self.file.write_text(text)

    found = Site()
    found.write(TLS)
    return found


def looked(live: LiveConfig) -> LiveConfig:
    """Look until a change rests and is read."""
    live.look()
    live.look()
    return live


def test_without_a_file_there_is_nothing_to_follow():
    """Plain HTTP for everyone, and a look that looks at nothing."""
    live = looked(LiveConfig())
    assert (live.scheme, live.config.users) == ("http", {})


def test_a_change_holds_once_it_rests(site):
    """One look sees that something changes, the next reads it; without a change nothing is read or said."""
    live = looked(LiveConfig(site.file))
    context = live.context
    assert site.said == []
    site.write(f"{TLS}basic_auth_users:\n  alice: {HASH}\n")
    live.look()
    assert live.config.users == {}
    live.look()
    assert live.config.users == {"alice": HASH}
    assert live.context is not context
    looked(live)
    assert site.said == ["the web configuration was read again: TLS, 1 user"]


def test_a_new_certificate_is_a_change(site):
    """Also when the file itself stays; certificate and key that change one after the other are one change."""
    live = LiveConfig(site.file)
    context = live.context
    key = site.file.parent / "server.key"
    old = key.read_text()
    site.sign("server")
    new = key.read_text()
    key.write_text(old)
    live.look()  # certificate and key do not belong together now
    key.write_text(new)
    looked(live)
    assert live.context is not context
    assert site.said == ["the web configuration was read again: TLS, 0 users"]


def test_a_broken_state_is_said_once_and_changes_nothing(site):
    """Each broken state has its line; what was in force stays, and the next good state holds."""
    live = LiveConfig(site.file)
    before = live.config, live.context
    site.write("colour: blue\n")
    for _ in range(5):
        live.look()
    assert (live.config, live.context) == before
    assert len(site.said) == 1
    assert "colour is not a known setting" in site.said[0]
    assert "stays in force" in site.said[0]
    site.write(TLS.replace("server.key", "later.key"))
    for _ in range(5):
        live.look()
    assert (live.config, live.context) == before
    assert len(site.said) == 2
    assert "later.key" in site.said[1]
    (site.file.parent / "server.key").rename(
        site.file.parent / "later.key"
    )  # that it names is watched, though it is new
    looked(live)
    assert live.config != before[0]
    assert site.said[2:] == ["the web configuration was read again: TLS, 0 users"]


def test_a_file_that_goes_and_comes_back(site):
    """Gone is broken; back as it was is read again."""
    live = LiveConfig(site.file)
    site.file.unlink()
    looked(looked(live))
    assert len(site.said) == 1
    assert "cannot read the web configuration" in site.said[0]
    site.write(TLS)
    looked(live)
    assert site.said[1:] == ["the web configuration was read again: TLS, 0 users"]


@pytest.mark.parametrize("text", ["", "# nothing\n"])
def test_a_file_that_is_emptied_lets_nobody_in(site, text):
    """A full disk leaves an empty file of one that is written anew; only a start takes it at its word, and `{}`."""
    site.write(f"{TLS}basic_auth_users:\n  alice: {HASH}\n")
    live = LiveConfig(site.file)
    before = live.config, live.context
    site.write(text)
    looked(looked(live))
    assert (live.config, live.context) == before
    assert len(site.said) == 1
    assert "is empty" in site.said[0]
    assert "stays in force" in site.said[0]
    site.write("{}\n")
    looked(live)
    assert site.said[1:] == ["the web configuration was read again: plain HTTP, 0 users"]
    assert LiveConfig(site.file).scheme == "http"


def test_a_start_with_a_broken_file_is_wrong_use(site):
    """There is no state before it to keep."""
    site.write("colour: blue\n")
    with pytest.raises(WrongUseError):
        LiveConfig(site.file)
