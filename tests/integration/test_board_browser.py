"""Boards as Debian's Chromium draws them, from files: wide and narrow, light, dark and on paper."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, expect

from controller.contracts.result import Validity
from controller.reports.html.board import Proof, board_pages
from controller.reports.views.board_model import Board
from tests.support.boards import answered, board_of
from tests.support.chromium import chromium
from tests.support.figures import Figure
from tests.support.opened_pages import REFUSED, Opened, listening
from tests.support.sweep_examples import HOSTILE, SweepExample, failure, repeats, result

pytestmark = pytest.mark.integration

DESKTOP, PHONE, PRINTED = 1280, 390, 1032
"""Widths in px; the last is a landscape A4 page between its margins."""
CONTRAST = 4.5
"""Least contrast of text that WCAG 2.2 asks for (level AA, 1.4.3)."""
PAINTED_S = 1.0
LAST_PAINT = """new Promise(resolve => {
  new PerformanceObserver(list => {
    const entries = list.getEntries();
    resolve(entries[entries.length - 1].startTime / 1000);
  }).observe({type: "largest-contentful-paint", buffered: true});
})"""
IDLE = "new Promise(resolve => requestIdleCallback(() => resolve(true)))"

Theme = Literal["light", "dark"]
Open = Callable[..., Opened]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Pages by name: the index, a device and a row of a board with all that can be on one; and
    `large`, the index of 20 devices and 10 tasks."""
    folder = tmp_path_factory.mktemp("boards")
    board = rich()
    written(board, folder / "rich")
    example = SweepExample(devices=20, workloads=10, repeats=3, samples=50)
    written(board_of([*example.results()]), folder / "large")
    (row,) = [r for one in board.rankings for r in one.rows if r.row.device.id == "shop"]
    rich_ = folder / "rich"
    return {
        "index": rich_ / "index.html",
        "device": rich_ / "devices" / f"{row.device_key}.html",
        "row": rich_ / "rows" / f"{row.key}.html",
        "large": folder / "large" / "index.html",
    }


def written(board: Board, folder: Path) -> None:
    proof = Proof("SHA256SUMS", "SHA256SUMS.sig", "benchfarm", "SHA256:" + "x" * 43)
    for name, text in board_pages(board, proof):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def rich() -> Board:
    """Return a board with virtual devices, costs, hostile texts, and what doesn't rank."""
    example = SweepExample(devices=3, virtual=2, workloads=4, repeats=2, samples=9)
    priced = answered("shop", 0.01, 0.03, workload="w1", device_name="a-" + "long-name-" * 6)
    bad = result(device="device-01", validity=Validity.INVALID, reasons=("too hot", HOSTILE))
    odd = repeats("odd", (1.0,) * 4, environment={HOSTILE: HOSTILE, "cpu_model": HOSTILE})
    failed = failure(device="device-09-that-never-measured", message=HOSTILE, output=HOSTILE)
    labels = {"shop": {"price_per_hour": "3.6"}, "odd": {"price_per_hour": HOSTILE}}
    return board_of(
        [*example.results(), priced, bad, *odd], [failed], labels=labels, currency="EUR"
    )


@pytest.fixture(scope="module")
def opened(browser: Browser, files: dict[str, Path]) -> Iterator[Open]:
    """Open a page, each combination once."""
    pages: dict[tuple[str, int, str], Opened] = {}

    def open_(name: str, width: int = DESKTOP, theme: Theme = "light") -> Opened:
        if (name, width, theme) not in pages:
            page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=theme)
            pages[name, width, theme] = listening(page)
            page.goto(files[name].as_uri())
            assert page.evaluate(IDLE)
        return pages[name, width, theme]

    yield open_
    for one in pages.values():
        one.page.close()


@pytest.mark.parametrize("name", ["index", "device", "row", "large"])
def test_a_page_says_nothing_and_asks_for_nothing_but_itself(
    name: str, opened: Open, files: dict[str, Path]
) -> None:
    page = opened(name)
    assert page.complaints == []
    assert [url for url in page.requests if url != "data:,"] == [files[name].as_uri()]


@pytest.mark.parametrize("name", ["index", "device", "row"])
def test_the_browser_refuses_whatever_would_leave_the_page(
    name: str, browser: Browser, files: dict[str, Path]
) -> None:
    attempts = {
        "fetch('http://127.0.0.1:9/').catch(() => {})": "connect-src",
        "new Image().src = 'http://127.0.0.1:9/x.png'": "img-src",
        "document.body.append(script)": "script-src-elem",
    }
    with browser.new_page() as page:
        page.goto(files[name].as_uri())
        for attempt, directive in attempts.items():
            assert page.evaluate(REFUSED % attempt) == directive
        assert page.evaluate("window.stranger") is None


@pytest.mark.parametrize("width", [DESKTOP, PHONE])
@pytest.mark.parametrize("name", ["index", "device", "row", "large"])
def test_nothing_overlaps_or_leaves_the_page(name: str, width: int, opened: Open) -> None:
    page = opened(name, width)
    assert page.measure("[document.documentElement.scrollWidth, innerWidth]") == [width, width]
    assert page.measure("overflowing()") == []
    assert page.measure("overlaps()") == []


@pytest.mark.parametrize("name", ["index", "device", "row", "large"])
def test_tables_have_captions_and_headers_and_links_have_names(name: str, opened: Open) -> None:
    page = opened(name)
    assert page.measure("unreadableTables()") == []
    assert page.measure(UNNAMED) == []


UNNAMED = """[...document.querySelectorAll("a, button, input, select")].filter(e =>
  !(e.textContent.trim() || e.labels?.[0]?.textContent.trim() || e.ariaLabel)).map(say)"""


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", ["index", "device", "row"])
def test_every_text_has_enough_contrast(name: str, theme: Theme, opened: Open) -> None:
    assert opened(name, theme=theme).measure(f"faintTexts({CONTRAST})") == []


@pytest.mark.parametrize("name", ["index", "device", "row"])
def test_paper_cuts_nothing_and_is_light(
    name: str, browser: Browser, files: dict[str, Path]
) -> None:
    viewport = {"width": PRINTED, "height": 900}
    with browser.new_page(viewport=viewport, color_scheme="dark") as page:  # type: ignore[arg-type]
        page.goto(files[name].as_uri())
        assert page.evaluate(IDLE)
        printed = Opened(page)
        page.emulate_media(media="print", color_scheme="dark")
        assert printed.measure("overflowing()") == []
        assert printed.measure("overlaps()") == []
        assert printed.measure(f"faintTexts({CONTRAST})") == []
        colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert colour == "rgb(255, 255, 255)"
        expect(page.get_by_label("Filters")).to_be_hidden()


def test_filters_show_the_rows_that_fit_and_give_all_back(
    browser: Browser, files: dict[str, Path]
) -> None:
    shown = "rows => rows.filter(r => r.checkVisibility()).map(r => r.textContent)"
    with browser.new_page(viewport={"width": DESKTOP, "height": 900}) as page:
        page.goto(files["index"].as_uri())
        rows, count = page.locator("section.task tbody tr"), page.locator("#count")
        everything = rows.evaluate_all(shown)
        expect(count).to_have_text(f"{len(everything)} of {len(everything)} rows")
        page.get_by_role("combobox", name="Task").select_option("w1 · single_stream")
        assert len(rows.evaluate_all(shown)) == 4
        expect(page.locator("section.task:visible")).to_have_count(1)
        page.get_by_label("Find").fill(" DEVICE-01")
        (row,) = rows.evaluate_all(shown)
        assert "device-01" in row
        page.get_by_role("button", name="Show all").click()
        assert rows.evaluate_all(shown) == everything
        page.get_by_role("combobox", name="Device").select_option(label="device-01")
        assert all("device-01" in row for row in rows.evaluate_all(shown))
        assert len(rows.evaluate_all(shown)) == 4
        page.get_by_role("button", name="Show all").click()
        page.get_by_label("Ranked only").check()
        ranked = rows.evaluate_all(shown)
        assert 0 < len(ranked) < len(everything)
        assert not any("measured" in row for row in ranked)
        page.get_by_label("Find").fill("nothing has this text")
        expect(count).to_have_text(f"0 of {len(everything)} rows")


def test_a_reader_walks_from_a_figure_to_its_provenance_and_back(
    browser: Browser, files: dict[str, Path]
) -> None:
    with browser.new_page(viewport={"width": PHONE, "height": 900}) as page:
        page.goto(files["index"].as_uri())
        page.locator("tr", has_text="a-long-name").get_by_role("link", name="provenance").click()
        expect(page.get_by_role("heading", name="Results", exact=True)).to_be_visible()
        expect(page.locator("pre code").first).to_contain_text("benchfarm results verify runs/")
        page.locator("#figure").get_by_role("link").first.click()
        expect(page.get_by_role("heading", name="Conditions")).to_be_visible()
        page.get_by_role("link", name="w1 · single_stream").click()
        assert page.url.startswith(files["index"].as_uri() + "#ranking-")


def test_without_scripts_the_pages_say_it_all(browser: Browser, files: dict[str, Path]) -> None:
    context = browser.new_context(java_script_enabled=False)
    with context.new_page() as page:
        page.goto(files["large"].as_uri())
        assert page.locator("section.task tbody tr:visible").count() == 200
        assert page.locator("#filters").is_hidden()
    context.close()


def test_a_board_of_20_devices_and_10_tasks_is_little_work_to_paint(
    browser: Browser, files: dict[str, Path], figure: Figure
) -> None:
    """Times the CPU of the page's main thread from navigation until it is idle."""
    with browser.new_page(viewport={"width": DESKTOP, "height": 900}) as page:
        session = page.context.new_cdp_session(page)
        session.send("Performance.enable", {"timeDomain": "threadTicks"})
        page.goto(files["large"].as_uri(), wait_until="commit")
        assert page.evaluate(IDLE)
        metrics = session.send("Performance.getMetrics")["metrics"]
    (seconds,) = [m["value"] for m in metrics if m["name"] == "ThreadTime"]
    figure("CPU seconds until a board of 20 devices × 10 tasks is painted", seconds, "1")
    assert seconds < 10 * PAINTED_S


@pytest.mark.hardware
def test_a_board_of_20_devices_and_10_tasks_paints_within_a_second(
    browser: Browser, files: dict[str, Path], figure: Figure
) -> None:
    """Times the wall, so it wants a machine with nothing else to do."""
    with browser.new_page(viewport={"width": DESKTOP, "height": 900}) as page:
        page.goto(files["large"].as_uri())
        seconds = page.evaluate(LAST_PAINT)
    figure("Seconds until the last large paint of that board", seconds, "1")
    assert seconds < PAINTED_S
