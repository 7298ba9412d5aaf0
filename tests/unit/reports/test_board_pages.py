"""The pages of a board: every text is a text, every link leads to a file, nothing is loaded."""

from __future__ import annotations

import html
import re
from html.parser import HTMLParser
from pathlib import PurePosixPath

import pytest

from controller.contracts.result import Validity
from controller.contracts.suite_session import MEETS, NOT_VERIFIED
from controller.reports.html.board import VERIFY, Proof, board_pages
from controller.reports.views.board_model import Board
from tests.support.boards import answered, board_of
from tests.support.sweep_examples import (
    HOSTILE,
    SweepExample,
    failure,
    repeats,
    result,
    trained,
)

PROOF = Proof("SHA256SUMS", "SHA256SUMS.sig", "benchfarm")
KINDS = {"index": 0, "devices": 0, "rows": 0}


class Links(HTMLParser):
    """Keeps what a page leads to, what it is led to by, and what it would load or run."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.loads: list[str] = []
        self.scripts = 0
        self.policy = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.anchors |= {found["id"]} if "id" in found else set()
        if tag == "a":
            self.links.append(found["href"])
        else:
            self.loads += [found[name] for name in ("src", "href", "action") if name in found]
        self.loads += [name for name in found if name.startswith("on")]
        self.scripts += tag == "script"
        if found.get("http-equiv") == "Content-Security-Policy":
            self.policy = found["content"]


def pages_of(board: Board, signer: str = "") -> dict[str, str]:
    proof = Proof(PROOF.sums, PROOF.signature, PROOF.namespace, signer)
    return dict(board_pages(board, proof))


def kind_of(page: str) -> str:
    return page.partition("/")[0].removesuffix(".html")


def hostile() -> Board:
    """Return a board with a hostile text wherever one can come from outside."""
    broken = result(
        device="a",
        device_name=HOSTILE,
        sweep_id=HOSTILE,
        validity=Validity.INVALID,
        reasons=(HOSTILE,),
        environment={HOSTILE: HOSTILE, "cpu_model": HOSTILE, "energy_unknown": HOSTILE},
        knobs={HOSTILE: HOSTILE},
    )
    fine = [
        result(device="b", stack=HOSTILE, knobs={"precision": HOSTILE}, run_id=HOSTILE),
        result(device="b", knobs={"precision": "x"}, metrics=trained((2.0, 2.1))),
    ]
    failed = failure(device="c", message=HOSTILE, output=HOSTILE, kind=HOSTILE)
    labels = {HOSTILE: {"price_per_hour": HOSTILE}, "b": {"price_per_hour": "1"}}
    return board_of([broken, *fine], [failed], labels=labels, currency=HOSTILE)


def test_every_text_of_every_page_is_escaped() -> None:
    pages = pages_of(hostile())
    plain = pages_of(board_of([answered("a", 0.01), answered("b", 0.02)]))
    seen = dict(KINDS)
    for name, text in pages.items():
        alike = next(other for page, other in plain.items() if kind_of(page) == kind_of(name))
        found, harmless = Links(text), Links(alike)
        assert HOSTILE not in text, name
        assert "<img" not in text, name
        assert (found.scripts, found.policy) == (harmless.scripts, harmless.policy), name
        seen[kind_of(name)] += text.count(html.escape(HOSTILE))
    assert seen["index"] >= 8
    assert seen["devices"] >= 6
    assert seen["rows"] >= 15


def test_marks_that_turn_a_text_around_are_shown() -> None:
    pages = pages_of(board_of([result(device="a", environment={"cpu_model": "a\u202eb\x1b["})]))
    for name, text in pages.items():
        assert "\u202e" not in text, name
        assert "\x1b" not in text, name
    assert "a\\u202eb\\u001b[" in pages["index.html"]


def large(devices: int = 3, workloads: int = 4) -> Board:
    """Return a board of real devices and a virtual one."""
    example = SweepExample(devices=devices, virtual=1, workloads=workloads, repeats=2, samples=5)
    return board_of([*example.results()], [failure(device="broken")])


def test_every_link_leads_to_a_file_of_the_board() -> None:
    board = large()
    pages = pages_of(board)
    there = {**{name: Links(text) for name, text in pages.items()}}
    files = {"data/board.json", "data/board.csv"}
    for ranking in board.rankings:
        for run in (run for row in ranking.rows for run in row.runs):
            files |= {f"{run.published.folder}/{file.name}" for file in run.published.files}
    reached = set()
    for name, page in there.items():
        for link in page.links:
            path, _, anchor = link.partition("#")
            target = resolved(name, path) if path else name
            assert target in there or target in files, (name, link)
            assert not anchor or anchor in there[target].anchors, (name, link)
            reached.add(target)
    assert reached == {*there, *files}


def resolved(page: str, link: str) -> str:
    """Return where a relative link leads from a page, as a path in the board."""
    parts = [*PurePosixPath(page).parent.parts]
    for part in PurePosixPath(link).parts:
        parts = parts[:-1] if part == ".." else [*parts, part]
    return "/".join(parts)


def test_no_page_loads_anything() -> None:
    for name, text in pages_of(large()).items():
        page = Links(text)
        assert page.loads == ["data:,"], name
        assert page.policy.startswith("default-src 'none'; script-src 'sha256-"), name
        assert not re.search(r"url\(|@import|https?:", text), name


def test_the_board_of_20_devices_and_10_tasks_has_every_row_and_no_chart_program() -> None:
    example = SweepExample(devices=20, workloads=10, repeats=2, samples=5)
    pages = pages_of(board_of([*example.results()]))
    index = pages["index.html"]
    assert len(pages) == 1 + 20 + 200
    assert index.count("provenance</a>") == 200
    assert len(re.findall(r'<section id="ranking-\d+" class="task"', index)) == 10
    assert len(index) < 400_000
    assert max(len(text) for name, text in pages.items() if name != "index.html") < 60_000


def test_each_row_names_the_command_that_checks_each_of_its_runs() -> None:
    board = large()
    pages = pages_of(board)
    checked = 0
    for ranking in board.rankings:
        for row in ranking.rows:
            text = pages[f"rows/{row.key}.html"]
            for run in row.runs:
                assert f"{VERIFY} {html.escape(run.published.folder)}</code>" in text
                checked += 1
    assert checked == 4 * 4 * 2


def test_a_row_without_logs_says_so() -> None:
    board = board_of(repeats("a", (1.0,) * 4))
    (ranking,) = board.rankings
    (row,) = ranking.rows
    files = row.runs[0].published.files[:1]
    bare = row.runs[0].published.model_copy(update={"files": files})
    object.__setattr__(row.runs[0], "published", bare)
    text = pages_of(board)[f"rows/{row.key}.html"]
    assert VERIFY not in text
    assert "This board has no LoadGen logs of it." in text
    assert "Not copied: latencies: too large." in text


def test_virtual_devices_say_so_on_every_page_that_names_them() -> None:
    board = large()
    names = {device.name.id for device in board.devices if device.name.virtual}
    assert names == {"device-03"}
    unmarked = re.compile(
        r'<span class="name"[^>]*>device-03</span>(?! <span class="chip">virtual)'
    )
    pages = pages_of(board)
    named = [name for name, text in pages.items() if "device-03" in text]
    assert len(named) == 1 + 1 + 4
    for name in named:
        assert "virtual" in pages[name]
        assert not unmarked.search(pages[name]), name


def test_unverified_stands_beside_mlperfs_name() -> None:
    board = board_of([result(device="a", environment={MEETS: True, "seed": "MLPerf's"})])
    (ranking,) = board.rankings
    title = "Images (MLPerf Mobile v5.0)"
    object.__setattr__(ranking.ranking, "workload_title", title)
    for name, text in pages_of(board).items():
        assert "meets_run_rules (unverified)" in text or name == "index.html", name
        assert NOT_VERIFIED in text, name
        if not name.startswith("devices/"):
            assert f'{title} <span class="chip">unverified</span>' in text, name


@pytest.mark.parametrize("signer", ["", "SHA256:" + "x" * 43])
def test_the_page_says_how_to_check_it_and_whether_it_is_signed(signer: str) -> None:
    index = pages_of(board_of(repeats("a", (1.0,) * 4)), signer)["index.html"]
    assert "sha256sum --check --quiet SHA256SUMS" in index
    command = "ssh-keygen -Y check-novalidate -n benchfarm -s SHA256SUMS.sig &lt; SHA256SUMS"
    assert (command in index) is bool(signer)
    assert (f"<code>{signer}</code>" in index) is bool(signer)
    assert ('<span class="chip">unsigned</span>' in index) is not bool(signer)


def test_a_row_says_what_its_device_costs_and_at_which_price() -> None:
    labels = {"a": {"price_per_hour": "3.6"}}
    board = board_of([answered("a", 0.01, 0.03)], labels=labels, currency="EUR")
    pages = pages_of(board)
    (row,) = board.rankings[0].rows
    assert (
        '<span class="cost">20 EUR <span class="interval">a million queries' in pages["index.html"]
    )
    text = pages[f"rows/{row.key}.html"]
    assert "at 3.6 EUR an hour and a latency_mean of 0.02" in text


def test_a_rank_is_told_among_the_rows_that_have_one() -> None:
    bad = result(device="bad", validity=Validity.INVALID, reasons=("hot",))
    board = board_of([*repeats("a", (1.0,) * 4), *repeats("b", (2.0,) * 4), bad])
    pages = pages_of(board)
    told = {row.row.device.id: pages[f"rows/{row.key}.html"] for row in board.rankings[0].rows}
    assert "<dd>2 of 2</dd>" in told["b"]
    assert "<dd>none: no VALID result</dd>" in told["bad"]


def test_nothing_measured_is_said() -> None:
    (index,) = pages_of(board_of([])).values()
    assert "Nothing has been measured yet." in index
