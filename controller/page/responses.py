"""The answers of the page: HTML with its headers, static files, and redirections."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from aiohttp import web

from controller.api.replies import etag_of, in_pieces, is_known
from controller.contracts.records import Scope
from controller.reports.html.charts import Chart
from controller.reports.html.page import environment, library, resource

PACKAGE: Final = "controller.page"
LAYOUT: Final = "served.html"
STATIC: Final = "/static"
_TYPES: Final = {"css": "text/css", "js": "text/javascript"}
_OWN: Final = ("live.js", "sign_in.js")
_SHARED: Final = ("theme.js", "page.js", "find.js", "timeline.js")
"""Scripts of reports, which their pages have here, too."""
HEADERS: Final[Mapping[str, str]] = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
"""Headers of every answer."""


@dataclass(frozen=True, slots=True)
class Visitor:
    """Who looks at a page."""

    name: str
    scope: Scope
    form_key: str
    """What forms of the visitor's session have to send back."""


@dataclass(frozen=True, slots=True)
class View:
    """A page without what all pages have."""

    title: str
    template: str
    context: Mapping[str, object]
    description: str = ""
    contents: Sequence[tuple[str, str]] = ()
    """Anchors and titles of the sections, for the table of contents."""
    charts: Sequence[Chart] = ()
    scripts: Sequence[str] = ()
    """Further scripts of reports."""
    place: str = ""
    """The address of the entry of the navigation that the page belongs to."""


def policy(*, charts: bool) -> str:
    """Return the Content-Security-Policy of a page: only files of this server, nothing inline.

    charts: plotly.js adds style rules to its page, and bars of shares are drawn by a style.
    """
    styles = "'self' 'unsafe-inline'" if charts else "'self'"
    return (
        f"default-src 'none'; script-src 'self'; style-src {styles}; img-src data:; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    )


def html_of(view: View, visitor: Visitor | None) -> str:
    """Return a page as HTML; all texts are escaped."""
    drawing = ["page.js"] if view.charts else []
    scripts = ["theme.js", "live.js", *drawing, *view.scripts]
    return part_of(
        view.template,
        visitor,
        {
            **view.context,
            "layout": LAYOUT,
            "title": view.title,
            "description": view.description,
            "contents": view.contents,
            "place": view.place,
            "charts": {chart.anchor: chart for chart in view.charts},
            "figures": {chart.anchor: chart.figure for chart in view.charts},
            "scripts": scripts,
        },
    )


def part_of(template: str, visitor: Visitor | None, context: Mapping[str, object]) -> str:
    """Return a template of the page as HTML; all texts are escaped."""
    shared = {"static": static_address, "visitor": visitor}
    return environment(PACKAGE).get_template(template).render({**shared, **context})


def html(request: web.Request, text: str, *, charts: bool = False) -> web.Response:
    """Return a page, or 304 if the browser has it."""
    body = text.encode()
    tag = etag_of(body)
    headers = {
        **HEADERS,
        "Content-Security-Policy": policy(charts=charts),
        "Cache-Control": "private, no-cache",
        "Vary": "Cookie",
        "ETag": tag,
    }
    if is_known(request.headers.getall("If-None-Match", []), tag):
        return web.Response(status=304, headers=headers)
    return web.Response(
        body=in_pieces(body), content_type="text/html", charset="utf-8", headers=headers
    )


def error(text: str, status: int, headers: Mapping[str, str]) -> web.Response:
    """Return a page that says why something is not done."""
    own = {"Content-Security-Policy": policy(charts=False), "Cache-Control": "no-store"}
    return web.Response(
        text=text, status=status, content_type="text/html", headers={**HEADERS, **own, **headers}
    )


def see_other(address: str) -> web.Response:
    """Return a redirection to an address of this server."""
    headers = {**HEADERS, "Location": address, "Cache-Control": "no-store"}
    return web.Response(status=303, headers=headers)


@cache
def static_files() -> Mapping[str, bytes]:
    """Return the files that every page may load, by their names."""
    styles = resource("page.css") + resource("served.css", PACKAGE)
    files = {"page.css": styles, "plotly.js": library()}
    files |= {name: resource(name) for name in _SHARED}
    files |= {name: resource(name, PACKAGE) for name in _OWN}
    return {name: text.encode() for name, text in files.items()}


@cache
def static_address(name: str) -> str:
    """Return the address of a static file, which changes with its content."""
    digest = hashlib.sha256(static_files()[name]).hexdigest()[:16]
    return f"{STATIC}/{digest}/{name}"


def static_answer(path: str) -> web.Response:
    """Return the static file at an address; raises web.HTTPNotFound."""
    name = path.rpartition("/")[2]
    if name not in static_files() or path != static_address(name):
        raise web.HTTPNotFound
    kept = "public, max-age=31536000, immutable"
    return web.Response(
        body=in_pieces(static_files()[name]),
        content_type=_TYPES[name.rpartition(".")[2]],
        charset="utf-8",
        headers={**HEADERS, "Cache-Control": kept},
    )
