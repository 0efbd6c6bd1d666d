"""What stands before the pages: a rate, headers, passwords."""

from __future__ import annotations

import base64

import bcrypt
import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from pimetrics.web.config import RateLimit, WebConfig
from pimetrics.web.guard import Guard
from pimetrics.web.passwords import BusyError, Passwords

USERS = {"alice": bcrypt.hashpw(b"right", bcrypt.gensalt(4)).decode()}


class Site:
    """A guarded application, its configuration and its clock."""

    def __init__(self) -> None:
        self.config = WebConfig()
        self.now = 0.0
        self.reached = 0
        app = Starlette(routes=[Route("/page", self._page, methods=["GET", "POST"])])
        self.client = TestClient(Guard(app, lambda: self.config, monotonic=lambda: self.now))

    def _page(self, _request):
        self.reached += 1
        return PlainTextResponse("page", headers={"X-Frame-Options": "sameorigin"})

    def get(self, *authorization: str, path: str = "/page"):
        return self.client.get(path, headers=[("Authorization", each) for each in authorization])


@pytest.fixture
def site():
    return Site()


def basic(login: str) -> str:
    return "Basic " + base64.b64encode(login.encode()).decode()


def test_without_a_configuration_everyone_gets_in(site):
    """No password asked for, none looked at."""
    assert site.get().text == site.get("nonsense").text == "page"


def test_without_the_password_nothing_is_reached(site):
    """401 with a challenge, whatever is wrong, for pages that exist or not; the application hears nothing of it."""
    site.config = WebConfig(users=USERS)
    for authorization in (
        (),
        (basic("alice:wrong"),),
        (basic("bob:right"),),
        ("Bearer x",),
        (basic("alice:right"),) * 2,
    ):
        for path in ("/page", "/nothing"):
            answer = site.get(*authorization, path=path)
            assert (answer.status_code, answer.text) == (401, "unauthorized\n")
            assert answer.headers["WWW-Authenticate"] == 'Basic realm="pimetrics", charset="UTF-8"'
    assert site.client.post("/page", content=b"x" * 100_000).status_code == 401
    assert site.reached == 0
    assert site.get(basic("alice:right")).text == "page"
    assert site.get(basic("alice:right"), path="/nothing").status_code == 404


def test_headers_go_on_every_answer(site):
    """Also on those that turn away; and they go before the application's own."""
    site.config = WebConfig(users=USERS, headers={"X-Frame-Options": "deny", "X-XSS-Protection": "0"})
    for answer in (site.get(), site.get(basic("alice:right")), site.get(basic("alice:right"), path="/nothing")):
        assert answer.headers.get_list("X-Frame-Options") == ["deny"]
        assert answer.headers["X-XSS-Protection"] == "0"


def test_a_rate_holds_for_all_together(site):
    """So many at once, then one each interval; turned away before any password is looked at."""
    site.config = WebConfig(users=USERS, rate_limit=RateLimit(2.0, 3))
    assert [site.get().status_code for _ in range(5)] == [401, 401, 401, 429, 429]
    site.now += 2.0
    assert [site.get(basic("alice:right")).status_code for _ in range(2)] == [200, 429]
    site.now += 1000.0
    answers = [site.get() for _ in range(4)]
    assert [each.status_code for each in answers] == [401, 401, 401, 429]
    assert answers[-1].headers["Retry-After"] == "1"
    site.config = WebConfig()
    assert site.get().status_code == 200


def test_too_many_checks_are_turned_away(site, monkeypatch):
    """429 and when to come again, if passwords wait already."""

    async def busy(*_):
        raise BusyError

    monkeypatch.setattr(Passwords, "check", busy)
    site.config = WebConfig(users=USERS)
    answer = site.get(basic("alice:right"))
    assert (answer.status_code, answer.headers["Retry-After"], site.reached) == (429, "1", 0)
    assert site.get().status_code == 401
