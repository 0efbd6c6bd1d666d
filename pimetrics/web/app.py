"""The HTTP side of `serve`: /metrics, /-/healthy, /-/ready and a small page at /."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

OPENMETRICS: Final = "application/openmetrics-text"
OPENMETRICS_TYPE: Final = f"{OPENMETRICS}; version=1.0.0; charset=utf-8"
TEXT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

_PAGE_HEADERS: Final = {
    # Should an escape ever be missed: no script, no request, no form, no frame. Styles stand in the page itself.
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}

SCRAPER_HEADER: Final = "x-prometheus-scrape-timeout-seconds"
"""Sent by Prometheus and those that scrape like it (VictoriaMetrics, Grafana Alloy), and by nobody else."""


class Shown(Protocol):
    """What /metrics shows, in two formats; of samples with some names only, if any are given."""

    def text(self, names: Sequence[str] = ()) -> bytes:
        """Return the text format."""

    def openmetrics(self, names: Sequence[str] = ()) -> bytes:
        """Return OpenMetrics."""


def make_app(
    metrics_shown: Shown,
    *,
    ready: Callable[[], bool],
    for_scrapers: Shown | None = None,
    page: Callable[[], str] = lambda: "",
    more: Sequence[BaseRoute] = (),
) -> Starlette:
    """Build the application.

    Args:
        metrics_shown: What /metrics shows.
        ready: Whether catch-up is done.
        for_scrapers: What /metrics shows to scrapers; by default the same.
        page: Makes the page at /.
        more: Further routes.
    """

    def metrics(request: Request) -> Response:
        shown = metrics_shown
        if for_scrapers is not None and SCRAPER_HEADER in request.headers:
            shown = for_scrapers
        names = request.query_params.getlist("name[]")
        if wants_openmetrics(request.headers.get("accept", "")):
            body, content_type = shown.openmetrics(names), OPENMETRICS_TYPE
        else:
            body, content_type = shown.text(names), TEXT_TYPE
        headers = {"Content-Type": content_type, "Vary": "Accept, Accept-Encoding"}
        if accepts_gzip(request.headers.get("accept-encoding", "")):
            body = gzip.compress(body, compresslevel=1, mtime=0)
            headers["Content-Encoding"] = "gzip"
        return Response(body, headers=headers)

    def healthy(_request: Request) -> Response:
        return PlainTextResponse("pimetrics is healthy\n")

    def is_ready(_request: Request) -> Response:
        if ready():
            return PlainTextResponse("pimetrics is ready\n")
        return PlainTextResponse("pimetrics is catching up; see pimetrics_source_lag_bytes\n", status_code=503)

    def front(_request: Request) -> Response:
        return HTMLResponse(page(), headers=_PAGE_HEADERS)

    app = Starlette(
        routes=[
            Route("/metrics", metrics),
            Route("/-/healthy", healthy),
            Route("/-/ready", is_ready),
            Route("/", front),
            *more,
        ]
    )
    app.router.redirect_slashes = (
        False  # /metrics/ is no page of ours, and the address to go to would be the client's word
    )
    return app


def wants_openmetrics(accept: str) -> bool:
    """Whether an Accept header prefers OpenMetrics to the text format; q-values count, text wins a tie of none."""
    wanted = _qualities(accept)
    openmetrics = wanted.get(OPENMETRICS, 0.0)
    return openmetrics > 0 and openmetrics >= wanted.get("text/plain", 0.0)


def accepts_gzip(accept_encoding: str) -> bool:
    """Whether an Accept-Encoding header takes gzip."""
    wanted = _qualities(accept_encoding)
    return wanted.get("gzip", wanted.get("*", 0.0)) > 0


def _qualities(header: str) -> dict[str, float]:
    """Return the best quality of each name in a header of the Accept family; a malformed q counts as 0."""
    found: dict[str, float] = {}
    for item in header.split(","):
        name, *params = (part.strip().lower() for part in item.split(";"))
        quality = 1.0
        for param in params:
            key, _, value = param.partition("=")
            if key.strip() == "q":
                try:
                    quality = float(value)
                except ValueError:
                    quality = 0.0
        if name:
            found[name] = max(found.get(name, 0.0), quality)
    return found
