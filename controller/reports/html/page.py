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

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from controller.platform.terminal import visible
from controller.reports.html.charts import Chart

PACKAGE = "controller.reports.html"
LAYOUT = "page.html"
"""The template that makes a file of a report; where reports are served, another one is extended."""


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
    template = environment().get_template(page.template)
    return template.render(
        **page.context,
        layout=LAYOUT,
        title=page.title,
        description=page.description,
        contents=page.contents,
        charts={chart.anchor: chart for chart in page.charts},
        figures={chart.anchor: chart.figure for chart in page.charts},
        scripts=[Markup(resource(name)) for name in _scripts_of(page)],
        library=Markup(library()) if page.charts else None,
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
def environment(package: str = PACKAGE) -> Environment:
    """Return the templates of a package and those of reports, which its own may extend.

    All texts are escaped, and control characters in them are visible.
    """
    loaders = [PackageLoader(name) for name in dict.fromkeys((package, PACKAGE))]
    made = Environment(
        loader=ChoiceLoader(loaders),
        autoescape=True,
        finalize=_seen,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals["policy_for"] = policy_for
    made.globals["style"] = Markup(resource("page.css"))
    return made


def _seen(value: object) -> object:
    # Markup is always our own.
    return visible(value, lines=True) if type(value) is str else value


def resource(name: str, package: str = PACKAGE) -> str:
    """Return the text of a file of a package's templates."""
    return files(package).joinpath("templates", name).read_text(encoding="utf-8")


def library() -> str:
    """Return plotly.js, which plotly's package brings; what makes figures there is not loaded."""
    return files("plotly").joinpath("package_data", "plotly.min.js").read_text(encoding="utf-8")
