"""The docs hold together: links lead to files and headings, and tables have whole rows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])


def _prose(text: str) -> str:
    """Return a page without its code blocks, so that a `#` there is no heading."""
    return re.sub(r"^ *```.*?^ *```", "", text, flags=re.MULTILINE | re.DOTALL)


def _anchors(text: str) -> set[str]:
    """Return the anchors of a page's headings, as GitHub derives them."""
    headings = re.findall(r"^#+ (.+)$", _prose(text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def _broken_links(text: str, page: Path) -> list[str]:
    """Return the relative links of a page that lead to no file or to no heading."""
    return [
        link
        for link in re.findall(r"\]\(([^)\s]+)\)", _prose(text))
        if "://" not in link and not _leads_somewhere(link, text, page)
    ]


def _leads_somewhere(link: str, text: str, page: Path) -> bool:
    """Return whether a relative link's file exists and has the heading of its anchor."""
    path, _, anchor = link.partition("#")
    target = page.parent / path
    if path and not target.exists():
        return False
    return not anchor or anchor in _anchors(target.read_text() if path else text)


def _uneven_rows(text: str) -> list[str]:
    """Return the rows of a page's tables with another number of cells than the row above."""
    uneven, above = [], 0
    for line in _prose(text).splitlines():
        row = line.strip()
        cells = len(re.findall(r"(?<!\\)\|", row)) if row.startswith("|") else 0
        if cells and above and cells != above:
            uneven.append(row)
        above = cells
    return uneven


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    assert _broken_links(page.read_text(), page) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_row_of_a_table_is_whole(page: Path) -> None:
    assert _uneven_rows(page.read_text()) == []


@pytest.mark.parametrize(
    "link", ["gone.md", "docs/fleet.md#gone", "#gone", "docs/gone.md#clocks"], ids=str
)
def test_a_planted_broken_link_is_found(link: str) -> None:
    text = f"# Page\n\n[a](docs/fleet.md#clocks) [b]({link}) [c](#page)"
    assert _broken_links(text, ROOT / "page.md") == [link]


def test_a_heading_in_a_code_block_is_none() -> None:
    assert _anchors("# A page, `code`\n```console\n# not one\n```\n") == {"a-page-code"}


def test_a_planted_broken_row_is_found() -> None:
    assert _uneven_rows("| a | b |\n|---|---|\n| c \\| d | e |\n| x|y | z |\n") == ["| x|y | z |"]
