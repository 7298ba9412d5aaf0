"""The page every HTML report is: one file with everything in it, that asks the network for nothing.

A report brings a template that extends templates/page.html, and charts. The page brings light and
dark, print, and a Content-Security-Policy that names its own scripts by hash: whatever text a
report shows, nothing else can run or load.
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from controller.platform.terminal import visible
from controller.reports.html.charts import Chart

PACKAGE = "controller.reports.html"


@dataclass(frozen=True, slots=True)
class Page:
    """What a report adds to the page."""

    title: str
    description: str
    template: str
    """File in templates/ that extends page.html; it finds the charts by anchor in `charts`."""
    contents: Sequence[tuple[str, str]]
    """Anchors and titles of the sections, for the list of contents."""
    charts: Sequence[Chart]
    context: Mapping[str, object]
    """What else the template needs."""


def render(page: Page) -> str:
    """Return the page as HTML, whole; every text in it is escaped."""
    template = _environment().get_template(page.template)
    return template.render(
        **page.context,
        title=page.title,
        description=page.description,
        contents=page.contents,
        charts={chart.anchor: chart for chart in page.charts},
        figures={chart.anchor: chart.figure for chart in page.charts},
        scripts=[_resource("theme.js"), *([_resource("page.js")] if page.charts else [])],
        library=Markup(get_plotlyjs()) if page.charts else None,
    )


def policy_for(scripts: Sequence[str]) -> str:
    """Return a Content-Security-Policy that lets these inline scripts run, and nothing load."""
    hashes = (hashlib.sha256(script.encode()).digest() for script in scripts)
    allowed = " ".join(f"'sha256-{b64encode(digest).decode()}'" for digest in hashes)
    return (
        f"default-src 'none'; script-src {allowed}; img-src data:; "
        # plotly.js adds rules of its own to the page.
        "style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
    )


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader(PACKAGE),
        autoescape=True,
        finalize=_seen,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["policy_for"] = policy_for
    environment.globals["style"] = _resource("page.css")
    return environment


def _seen(value: object) -> object:
    # What is Markup is our own.
    return visible(value, lines=True) if type(value) is str else value


def _resource(name: str) -> Markup:
    """Return a file of templates/ that goes into the page as it is."""
    return Markup(files(PACKAGE).joinpath("templates", name).read_text())
