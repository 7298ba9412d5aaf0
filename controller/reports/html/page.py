"""The page of every HTML report: one self-contained file without network access.

A report brings a template that extends templates/page.html, and charts. The page adds light and
dark themes, print layout, and a Content-Security-Policy that allows only its own scripts, by hash:
no text in a report can run or load anything.
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from controller.platform.terminal import visible
from controller.reports.html.charts import Chart

PACKAGE = "controller.reports.html"


@dataclass(frozen=True, slots=True)
class Page:
    """The parts of a page that a report adds."""

    title: str
    description: str
    template: str
    """Template file in templates/ that extends page.html; `charts` has the charts by anchor."""
    contents: Sequence[tuple[str, str]]
    """Anchors and titles of the sections, for the table of contents."""
    charts: Sequence[Chart]
    context: Mapping[str, object]
    """Further variables of the template."""
    scripts: Sequence[str] = ()
    """Further scripts in templates/."""


def render(page: Page) -> str:
    """Return the complete page as HTML; all texts are escaped."""
    template = _environment().get_template(page.template)
    return template.render(
        **page.context,
        title=page.title,
        description=page.description,
        contents=page.contents,
        charts={chart.anchor: chart for chart in page.charts},
        figures={chart.anchor: chart.figure for chart in page.charts},
        scripts=[_resource(name) for name in _scripts_of(page)],
        library=Markup(get_plotlyjs()) if page.charts else None,
    )


def _scripts_of(page: Page) -> list[str]:
    return ["theme.js", *(["page.js"] if page.charts else []), *page.scripts]


def policy_for(scripts: Sequence[str]) -> str:
    """Return a Content-Security-Policy that allows these inline scripts and forbids loading."""
    hashes = (hashlib.sha256(script.encode()).digest() for script in scripts)
    allowed = " ".join(f"'sha256-{b64encode(digest).decode()}'" for digest in hashes)
    return (
        f"default-src 'none'; script-src {allowed}; img-src data:; "
        # plotly.js adds style rules to the page.
        "style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
    )


@cache
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
    # Markup is always our own.
    return visible(value, lines=True) if type(value) is str else value


def _resource(name: str) -> Markup:
    """Return a file of templates/ to include unescaped."""
    return Markup(files(PACKAGE).joinpath("templates", name).read_text())
