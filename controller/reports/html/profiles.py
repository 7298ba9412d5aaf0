"""Several profiles side by side as an HTML page, as figure 2 of arXiv 2206.10034 has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from controller.contracts.profile import ProfileSummary
from controller.contracts.result import Validity
from controller.profiles.model import Profile
from controller.reports.html.page import Page, render
from controller.reports.html.profile_charts import colours_of, donut, kind_name, shares_caption
from controller.reports.profile_lines import Line, kind_lines, untold_lines
from controller.reports.profile_origin import identity_lines
from controller.reports.profile_tables import summary_lines

Named = tuple[str, Profile]


def profiles_html(named: Sequence[Named], title: str) -> str:
    """Return the shares of several profiles, each with its name, as one self-contained file."""
    named = [(_judged(name, profile.summary), profile) for name, profile in named]
    tables = [kind_lines(profile).lines for _, profile in named]
    colours = colours_of(tables)
    charts = [
        donut(f"shares-{number}", name, shares_caption(profile), lines, colours)
        for number, ((name, profile), lines) in enumerate(zip(named, tables, strict=True), 1)
        if any(line.seconds for line in lines)
    ]
    return render(
        Page(
            title=title,
            description="Each kind of primitive has the same colour in all of them.",
            template="profiles.html",
            contents=[
                ("shares", "Shares"),
                *((f"profile-{number}", name) for number, (name, _) in enumerate(named, 1)),
            ],
            charts=charts,
            context={
                "anchors": [chart.anchor for chart in charts],
                "headings": ("primitive", *(name for name, _ in named)),
                "rows": share_rows(tables),
                "profiles": [(name, _lines(profile)) for name, profile in named],
            },
        )
    )


def _judged(name: str, summary: ProfileSummary) -> str:
    """Return a profile's name, wherever its figures are, with what they are not good for."""
    return name if summary.validity == Validity.VALID else f"{name}, {summary.validity}"


def _lines(profile: Profile) -> list[str]:
    summary = profile.summary
    return identity_lines(summary) + summary_lines(summary) + untold_lines(profile)


def share_rows(tables: Sequence[Sequence[Line]]) -> list[tuple[str, list[str]]]:
    """Return a row for each kind of primitive: its name and its share in each profile.

    That with the largest share anywhere comes first. A profile without lines doesn't tell.
    """
    shares = [{line.key: line.share for line in lines} for lines in tables]
    kinds = dict.fromkeys(key for of in shares for key in of)
    order = sorted(kinds, key=lambda key: -max(of.get(key, 0.0) for of in shares))
    return [(kind_name(key), [_share_text(of, key) for of in shares]) for key in order]


def _share_text(shares: Mapping[tuple[str, ...], float], key: tuple[str, ...]) -> str:
    if not shares:
        return "not told"
    return f"{shares[key]:.1%}" if key in shares else "–"
