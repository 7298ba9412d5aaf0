"""Reports as Debian's Chromium draws them: on a desktop, on a phone, in the dark and on paper."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, expect

from controller.contracts.peaks import Peaks
from controller.contracts.result import Validity
from controller.profiles.assembling import under_roofline
from controller.profiles.capturing import profile_of
from controller.profiles.diffing import diff
from controller.profiles.importing import import_file
from controller.profiles.model import Profile, Span
from controller.profiles.timeline import MOST_SPANS
from controller.reports.html.profile import profile_html
from controller.reports.html.profile_advice import profile_advice_html
from controller.reports.html.profile_diff import profile_diff_html
from controller.reports.html.profiles import profiles_html
from controller.reports.html.report import report_html
from controller.reports.views.comparison import comparison_view
from controller.reports.views.model import ReportView
from controller.reports.views.sweep import sweep_view
from tests.support.chromium import chromium
from tests.support.figures import Figure
from tests.support.opened_pages import (
    DESKTOP,
    IDLE,
    INTERACTIVE_S,
    REFUSED,
    Opened,
    core_s_until_idle,
    listening,
)
from tests.support.planted_advice import advised, proved
from tests.support.planted_profile import kernel, step
from tests.support.planted_profile import profile as by_hand
from tests.support.planted_step import planted
from tests.support.sweep_examples import (
    HOSTILE,
    MADE,
    SweepExample,
    catalog,
    failure,
    queried,
    result,
)

pytestmark = pytest.mark.integration

LONG = "a_name_without_a_space_" * 40 + "at_its_end"
PHONE = 390
PRINTED = 1032
"""Width in px of a landscape A4 page between its margins."""
CONTRAST = 4.5
"""Least contrast of text that WCAG 2.2 asks for (level AA, 1.4.3)."""

# Charts are drawn when they come near.
SEE_ALL = """(async () => {
  for (const plot of document.querySelectorAll(".plot")) {
    plot.scrollIntoView({behavior: "instant"});
    while (!plot.querySelector(".main-svg")) await new Promise(requestAnimationFrame);
  }
  scrollTo({top: 0, behavior: "instant"});
  return true;
})()"""
LEAST_CHARTS = {
    "rich": 8,
    "comparison": 4,
    "large": 20,
    "profile": 2,
    "diff": 1,
    "advice": 1,
    "profiles": 3,
    "timeline": 2,
}
Theme = Literal["light", "dark"]


Open = Callable[..., Opened]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Reports by name: one with all there can be in it, a comparison, and a large one."""
    folder = tmp_path_factory.mktemp("reports")
    large = SweepExample(devices=20, workloads=10, repeats=3, samples=100)
    reports = {
        "rich": rich(),
        "comparison": compared(),
        "large": sweep_view(large.data(), catalog(), MADE),
    }
    for name, view in reports.items():
        folder.joinpath(f"{name}.html").write_text(report_html(view))
    folder.joinpath("profile.html").write_text(profile_html(profiled(), "Profile of a log"))
    differences = diff(
        by_hand(step()), by_hand([*step()[:-1], kernel(HOSTILE, 0.3, module=HOSTILE)])
    )
    folder.joinpath("diff.html").write_text(profile_diff_html(differences, "Profiles A and B"))
    advice = profile_advice_html(by_hand(step()).summary, advised(), HOSTILE, proved())
    folder.joinpath("advice.html").write_text(advice)
    named = [("log", profiled()), (HOSTILE, by_hand(step())), ("a third", by_hand(step()[:3]))]
    folder.joinpath("profiles.html").write_text(profiles_html(named, "Three profiles"))
    many = [kernel(f"aten::op{n}", 0.01, module=f"body.op{n}") for n in range(60)]
    page = profile_html(by_hand([*step(), *many]), "Profile of many operations")
    folder.joinpath("deep.html").write_text(page)
    watched = profile_of(planted(folder / "planted"))
    folder.joinpath("timeline.html").write_text(profile_html(watched, "Profile with a timeline"))
    folder.joinpath("long.html").write_text(profile_html(with_many_spans(watched), "Many spans"))
    folder.joinpath("threads.html").write_text(profile_html(on_threads(watched), "Two threads"))
    names = (*reports, "profile", "diff", "advice", "profiles", "deep", "timeline", "long")
    folder.joinpath("tall.html").write_text(profile_html(on_many_threads(watched), "Many threads"))
    wordy = by_hand([*step(), kernel(f"aten::{LONG}", 0.3, module=LONG)])
    folder.joinpath("wordy.html").write_text(profile_html(wordy, "A long name"))
    page = profile_diff_html(diff(by_hand(step()), wordy), "A long name in B")
    folder.joinpath("wordy-diff.html").write_text(page)
    names = (*names, "threads", "tall", "wordy", "wordy-diff")
    return {name: folder / f"{name}.html" for name in names}


def with_many_spans(watched: Profile) -> Profile:
    """Return a profile with a timeline as long as a page has at most."""
    many = [
        Span("op", f"aten::op{n % 300}", f"body.{n}", 0, 2 + n % 6, n * 1e-5, 8e-6)
        for n in range(MOST_SPANS - 1)
    ]
    whole = Span("step", "step", "", 0, 0, 0.0, MOST_SPANS * 1e-5)
    return replace(watched, timeline=(whole, *many))


def on_many_threads(watched: Profile) -> Profile:
    """Return a profile of a long step that has more rows than are drawn."""
    spans = [Span("op", f"op {n}", "", n, 7, 1.23456789, 12.3456) for n in range(1, 250)]
    return replace(watched, timeline=(Span("step", "step", "", 0, 0, 0.0, 20.0), *spans))


def on_threads(watched: Profile) -> Profile:
    """Return a profile whose convolutions, 15 ms on a thread and 20 ms on another, are nested."""
    placed = [
        *((0, "module conv1", 0, 10), (0, "aten::conv2d", 0, 10), (0, "conv FWD_D", 2, 6)),
        *((0, "aten::conv2d", 20, 5), (0, "aten::relu", 25, 5)),
        *((1, "aten::conv2d", 5, 15), (1, "aten::convolution", 15, 10)),
    ]
    lanes = iter(range(len(placed)))
    spans = [
        Span("op", name, "", thread, next(lanes), start_ms * 1e-3, ms * 1e-3)
        for thread, name, start_ms, ms in placed
    ]
    return replace(watched, timeline=(Span("step", "step", "", 0, 0, 0.0, 0.03), *spans))


def rich() -> ReportView:
    sweep = SweepExample(devices=3, virtual=2, baseline={"precision": "fp32"})
    int8 = [
        result(
            workload="w1",
            device=f"device-{n:02}",
            scenario="single_stream",
            repeat=repeat,
            knobs={"precision": "bf16", "numerics": "a_rather_long_word_for_a_number_format"},
            metrics=queried((0.01, 0.011, 0.012 + n / 1000, 0.013), top1=0.71 + n / 100),
        )
        for n in range(3)
        for repeat in range(2)
    ]
    bad = result(device="device-01", validity=Validity.INVALID, reasons=("too hot", HOSTILE))
    failed = failure(device="device-09-that-never-measured", message=HOSTILE, output=HOSTILE * 9)
    return sweep_view(sweep.data([*sweep.results(), *int8, bad], [failed]), catalog(), MADE)


def compared() -> ReportView:
    results = list(SweepExample().results())
    return comparison_view(["device-00", "device-02"], results, [], catalog(), MADE)


def profiled() -> Profile:
    """A recorded log under a roofline."""
    log = Path(__file__).parents[1] / "unit" / "profiles" / "logs" / "onednn-3.12.log"
    peaks = Peaks(gemm_flops={"f32": 3e11, "bf16": 2e12}, copy_bytes=2.4e10)
    return under_roofline(import_file(log), peaks)


@pytest.fixture(scope="module")
def opened(browser: Browser, files: dict[str, Path]) -> Iterator[Open]:
    """Open a report, each combination once, and wait until all is drawn."""
    pages: dict[tuple[str, int, str], Opened] = {}

    def open_(name: str, width: int = DESKTOP, theme: Theme = "light") -> Opened:
        if (name, width, theme) not in pages:
            page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=theme)
            pages[name, width, theme] = listening(page)
            page.goto(files[name].as_uri())
            assert page.evaluate(SEE_ALL)
            assert page.evaluate(IDLE)
        return pages[name, width, theme]

    yield open_
    for one in pages.values():
        one.page.close()


@pytest.mark.parametrize("name", LEAST_CHARTS)
def test_every_chart_draws_without_a_complaint_or_a_request(name: str, opened: Open) -> None:
    report = opened(name)
    charts = report.page.locator(".plot").count()
    assert charts >= LEAST_CHARTS[name]
    assert report.measure("emptyCharts()") == []
    assert report.complaints == []
    assert [url for url in report.requests if not url.startswith(("file:", "data:"))] == []
    assert len([url for url in report.requests if url.startswith("file:")]) == 1


def test_browser_refuses_whatever_would_leave_the_page(
    browser: Browser, files: dict[str, Path]
) -> None:
    attempts = {
        "fetch('http://127.0.0.1:9/').catch(() => {})": "connect-src",
        "new Image().src = 'http://127.0.0.1:9/x.png'": "img-src",
        "document.body.append(script)": "script-src-elem",
    }
    with browser.new_page() as page:
        page.goto(files["comparison"].as_uri())
        for attempt, directive in attempts.items():
            assert page.evaluate(REFUSED % attempt) == directive
        assert page.evaluate("window.stranger") is None


@pytest.mark.parametrize(
    ("name", "width"),
    [
        ("rich", DESKTOP),
        ("rich", PHONE),
        ("comparison", DESKTOP),
        ("large", DESKTOP),
        ("large", PHONE),
        ("profile", DESKTOP),
        ("profile", PHONE),
        ("timeline", DESKTOP),
        ("timeline", PHONE),
        ("diff", PHONE),
        ("advice", PHONE),
        ("profiles", DESKTOP),
        ("profiles", PHONE),
    ],
)
def test_nothing_overlaps_or_leaves_the_page(name: str, width: int, opened: Open) -> None:
    report = opened(name, width)
    assert report.measure("[document.documentElement.scrollWidth, innerWidth]") == [width, width]
    assert report.measure("overflowing()") == []
    assert report.measure("overlaps()") == []
    assert report.measure("cutTexts()") == []


def test_measures_see_what_is_wrong(browser: Browser, files: dict[str, Path]) -> None:
    """The checks above can fail."""
    with browser.new_page(viewport={"width": PHONE, "height": 900}) as page:
        report = Opened(page)
        page.goto(files["comparison"].as_uri())
        assert page.evaluate(SEE_ALL)
        assert page.evaluate(IDLE)
        page.add_style_tag(
            content="h2 { width: 200vw; margin-bottom: -2em !important; } .note { color: #ddd }"
            " .plot { width: 200px !important }"
        )
        page.evaluate("document.querySelector('tbody th').remove()")
        page.evaluate("document.querySelector('.plot').replaceChildren()")
        found = ("overflowing()", "overlaps()", "cutTexts()", "emptyCharts()", "unreadableTables()")
        for what in (*found, f"faintTexts({CONTRAST})"):
            assert report.measure(what) != [], what


@pytest.mark.parametrize("name", ["rich", "comparison", "large"])
def test_tables_have_captions_and_headers(name: str, opened: Open) -> None:
    assert opened(name).measure("unreadableTables()") == []


@pytest.mark.parametrize("name", ["profile", "diff", "advice", "profiles"])
def test_a_phone_shows_all_numbers_with_their_headings(name: str, opened: Open) -> None:
    numbers = opened(name, PHONE).page.locator(".named tbody tr:not([hidden]) td.number")
    assert numbers.count() > 3
    cut = "nodes => nodes.filter(n => n.getBoundingClientRect().right > innerWidth).length"
    assert numbers.evaluate_all(cut) == 0
    headings = "nodes => nodes.map(n => getComputedStyle(n, '::before').content)"
    assert set(numbers.evaluate_all(headings)).isdisjoint({"none", '""'})


@pytest.mark.parametrize("name", ["wordy", "wordy-diff"])
def test_a_long_name_leaves_all_numbers_in_sight(name: str, opened: Open) -> None:
    numbers = opened(name).page.locator(".named tbody tr:not([hidden]) td.number")
    assert numbers.count() > 3
    cut = "nodes => nodes.filter(n => n.getBoundingClientRect().right > innerWidth).length"
    assert numbers.evaluate_all(cut) == 0


def test_a_search_finds_the_end_of_a_name_that_is_shortened(opened: Open) -> None:
    page = opened("wordy").page
    rows = page.locator("#modules tbody tr:visible")
    before = rows.count()
    page.get_by_label("Find in all tables").fill(LONG[-9:].upper())
    expect(rows).to_have_count(1)
    assert LONG[-9:] not in rows.inner_text()
    page.get_by_label("Find in all tables").fill("")
    expect(rows).to_have_count(before)


def test_a_search_shows_rows_of_all_tables_and_gives_back_what_was_shown(opened: Open) -> None:
    page = opened("deep").page
    rows = page.locator("main tbody tr")
    shown = "rows => rows.filter(r => !r.hidden).length"
    before = rows.evaluate_all(shown)
    assert before < rows.count()
    page.get_by_label("Find in all tables").fill(" OP5")
    found = "rows => rows.filter(r => !r.hidden).map(r => r.textContent.toLowerCase())"
    texts = rows.evaluate_all(found)
    expect(page.locator("#find-count")).to_have_text(f"{len(texts)} rows found")
    assert len(texts) == 2 * 11  # op5 and op50 to op59, as operations and as modules
    assert all("op5" in text for text in texts)
    page.get_by_label("Find in all tables").fill("no such thing")
    expect(page.get_by_role("status").and_(page.locator("#find-count"))).to_have_text(
        "0 rows found"
    )
    page.get_by_label("Find in all tables").fill("")
    expect(page.locator("#find-count")).to_have_text("")
    assert rows.evaluate_all(shown) == before


def test_a_frame_of_the_tree_is_gone_into(opened: Open) -> None:
    page = opened("deep").page
    slices = page.locator("#tree .slice")
    before = slices.count()
    assert before > 3
    slices.nth(2).click()
    expect(slices).not_to_have_count(before)
    assert "step" in " ".join(page.locator("#tree .pathbar text").all_text_contents())


def test_the_tree_is_gone_through_by_keyboard(opened: Open) -> None:
    page = opened("profile").page  # of a log: in no phase and module
    told, frames = page.locator("#tree-told"), page.get_by_label("Frame of the tree")
    into, out = (page.get_by_role("button", name=name) for name in ("Go in", "Go out"))
    level = "document.getElementById('tree').data[0].level"
    begin = told.text_content()
    assert begin
    assert begin.startswith("In \u2068all\u2069, ")
    expect(out).to_be_disabled()
    first = frames.locator("option").first
    name, frame = first.text_content(), first.get_attribute("value")
    assert name
    into.focus()
    page.keyboard.press("Enter")
    expect(told).to_contain_text(f"In {name}: ")
    page.wait_for_function(f"{level} === '{frame}'")
    out.focus()
    page.keyboard.press("Enter")
    expect(told).to_have_text(begin)
    page.wait_for_function(f"{level} === '0'")
    page.locator("#tree .slice").nth(1).click()
    expect(told).not_to_have_text(begin)


def test_a_canvas_is_no_higher_than_a_browser_draws(
    browser: Browser, files: dict[str, Path]
) -> None:
    sizes = {}
    for density in (1, 2):
        with browser.new_page(
            viewport={"width": DESKTOP, "height": 900}, device_scale_factor=density
        ) as page:
            page.goto(files["tall"].as_uri())
            canvas = page.locator("#timeline-canvas")
            assert canvas.evaluate(INK)
            sizes[density] = canvas.evaluate("of => [of.height, of.clientHeight]")
    assert sizes == {1: [20020, 20020], 2: [32000, 20020]}


def test_times_from_a_second_on_are_in_seconds_and_starts_keep_their_digits(opened: Open) -> None:
    page = opened("tall").page
    page.get_by_label("Find in the timeline").fill("op 7")
    page.keyboard.press("Enter")
    expect(page.locator("#timeline-told bdi").first).to_have_text("op 7")
    expect(page.locator("#timeline-told")).to_contain_text("op op 7 · 12.346 s from 1.2345679 s")


SIGHT = "canvas => [+canvas.dataset.from, +canvas.dataset.to]"
INK = """canvas => {
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  return data.some((part, place) => place % 4 === 3 && part > 0);
}"""


ACCENT: Mapping[Theme, list[int]] = {"light": [10, 86, 194], "dark": [125, 180, 255]}
"""Colour around what is chosen."""
DRAWN_IN = """colour => {
  const canvas = document.getElementById("timeline-canvas");
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  return data.some((part, at) => at % 4 === 0 && colour.every((one, by) => data[at + by] === one));
}"""


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_timeline_is_gone_through_by_keyboard(theme: Theme, opened: Open) -> None:
    page = opened("timeline", theme=theme).page
    canvas, told = page.locator("#timeline-canvas"), page.locator("#timeline-told")
    assert canvas.evaluate(INK)
    whole = canvas.evaluate(SIGHT)
    assert whole[0] == 0
    canvas.focus()
    page.keyboard.press("+")
    expect(canvas).not_to_have_attribute("data-to", str(whole[1]))
    begin, end = canvas.evaluate(SIGHT)
    assert end - begin == pytest.approx(whole[1] / 2, abs=2)
    page.keyboard.press("ArrowRight")
    expect(canvas).not_to_have_attribute("data-from", str(begin))
    page.keyboard.press("Home")
    expect(canvas).to_have_attribute("data-to", str(whole[1]))
    for key, text in (
        ("ArrowDown", "step step"),
        ("ArrowDown", "phase load"),
        ("]", "phase forward"),
        ("Alt+[", "phase load"),
        ("Alt+]", "phase forward"),  # as with Option on many keyboards of Macs
        ("ArrowDown", "module head.cls_logits"),
        ("ArrowUp", "phase forward"),
    ):
        page.keyboard.press(key)
        expect(told).to_contain_text(text)
    page.wait_for_function(DRAWN_IN, arg=ACCENT[theme])
    page.keyboard.press("Enter")
    expect(canvas).not_to_have_attribute("data-from", "0")
    page.keyboard.press("Escape")
    expect(told).to_have_text("Nothing chosen.")


def test_a_timeline_is_searched_and_clicked(opened: Open) -> None:
    page = opened("timeline").page
    canvas, told = page.locator("#timeline-canvas"), page.locator("#timeline-told")
    page.get_by_role("button", name="All").click()
    page.get_by_label("Find in the timeline").fill("CONVOLUTION")
    # The primitive is in the kernel, and takes no time beside it.
    expect(page.locator("#timeline-count")).to_have_text("2 found, 253.0 ms together")
    page.keyboard.press("Enter")
    expect(told).to_contain_text("aten::mkldnn_convolution")
    page.get_by_role("button", name="Next found").click()
    expect(told).to_contain_text("primitive convolution FWD_D · 245.3 ms from")
    expect(told).to_contain_text("mb1_ic16oc16")
    page.get_by_label("Find in the timeline").fill("no such thing")
    expect(page.locator("#timeline-count")).to_contain_text("0 found")
    box = canvas.bounding_box()
    assert box
    page.mouse.click(box["x"] + 0.1 * box["width"], box["y"] + 50)
    expect(told).to_contain_text("phase load")
    page.mouse.dblclick(box["x"] + 0.1 * box["width"], box["y"] + 50)
    expect(canvas).not_to_have_attribute("data-to", "5300000")
    page.get_by_role("button", name="All").click()
    expect(canvas).to_have_attribute("data-from", "0")


def test_time_of_found_spans_counts_once_a_thread(opened: Open) -> None:
    page = opened("threads").page
    for text, told in (("conv", "6 found, 35.00 ms together"), ("relu", "1 found, 5.000 ms")):
        page.get_by_label("Find in the timeline").fill(text)
        expect(page.locator("#timeline-count")).to_contain_text(told)


def test_moments_are_above_all_rows_and_threads_are_told_by_number(opened: Open) -> None:
    page = opened("threads").page
    canvas, told = page.locator("#timeline-canvas"), page.locator("#timeline-told")
    inked = """canvas => {
      const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, 20);
      return data.some((part, place) => place % 4 === 3 && part > 0);
    }"""
    assert canvas.evaluate(inked), "the axis is drawn"
    canvas.click(position={"x": 100, "y": 30})
    expect(told).to_contain_text("step step · 30.00 ms from 0 µs, thread 1 of 2")
    canvas.click(position={"x": 100, "y": 10})
    expect(told).to_have_text("Nothing chosen.")
    page.get_by_label("Find in the timeline").fill("aten::convolution")
    page.keyboard.press("Enter")
    expect(told).to_contain_text("10.00 ms from 15.0000 ms, thread 2 of 2")


def test_the_longest_timeline_is_drawn_in_a_moment_and_the_page_is_no_larger_than_stated(
    browser: Browser, files: dict[str, Path], figure: Figure
) -> None:
    assert files["long"].stat().st_size - files["timeline"].stat().st_size < 1.5e6
    with browser.new_page(viewport={"width": DESKTOP, "height": 900}) as page:
        page.goto(files["long"].as_uri())
        canvas = page.locator("#timeline-canvas")
        assert canvas.evaluate(INK)
        canvas.focus()
        seconds = canvas.evaluate(
            """canvas => new Promise(resolve => {
              const begun = performance.now();
              canvas.dispatchEvent(new KeyboardEvent("keydown", {key: "+"}));
              requestAnimationFrame(() => resolve((performance.now() - begun) / 1e3));
            })"""
        )
    figure("seconds to draw a timeline of 20,000 spans again", seconds, "0.1")
    assert seconds < INTERACTIVE_S


def test_virtual_devices_are_marked_wherever_they_show(opened: Open) -> None:
    page = opened("rich").page
    names = page.locator("main .name", has_text=re.compile("device-0[34]"))
    assert names.count() > 10
    unmarked = "nodes => nodes.filter(n => n.nextElementSibling?.textContent !== 'virtual').length"
    assert names.evaluate_all(unmarked) == 0
    ticks = page.locator(".plot text", has_text=re.compile("device-0[34]"))
    assert ticks.count() > 0
    assert [t for t in ticks.all_text_contents() if "(virtual)" not in t] == []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_text_has_enough_contrast(theme: Theme, opened: Open) -> None:
    assert opened("rich", theme=theme).measure(f"faintTexts({CONTRAST})") == []


def test_dark_follows_the_system_and_the_button_changes_page_and_charts(opened: Open) -> None:
    light, dark = (opened("rich", theme=theme).measure("colours()") for theme in ("light", "dark"))
    assert all(light[part] != dark[part] for part in ("page", "text", "mark"))
    report = opened("comparison")
    before = report.measure("colours()")
    button = report.page.get_by_role("button", name="Dark")
    button.focus()
    report.page.keyboard.press("Enter")
    assert button.get_attribute("aria-pressed") == "true"
    assert report.measure("colours()") == opened("comparison", theme="dark").measure("colours()")
    button.click()
    assert report.measure("colours()") == before


def test_keyboard_reaches_the_content_and_what_scrolls(opened: Open) -> None:
    page = opened("rich", PHONE).page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    regions = page.get_by_role("region", name="Ranking of w0 · training")
    regions.first.focus()
    assert page.evaluate("document.activeElement.className") == "scroll"


@pytest.mark.parametrize("name", ["rich", "large"])
def test_paper_cuts_nothing_and_is_light(
    name: str, browser: Browser, files: dict[str, Path]
) -> None:
    viewport = {"width": PRINTED, "height": 900}
    with browser.new_page(viewport=viewport, color_scheme="dark") as page:  # type: ignore[arg-type]
        page.goto(files[name].as_uri())
        assert page.evaluate(IDLE)
        report = Opened(page)
        page.emulate_media(media="print", color_scheme="dark")
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        # All of them, though none has been in sight.
        assert report.measure("emptyCharts()") == []
        assert report.measure("overflowing()") == []
        assert report.measure("overlaps()") == []
        assert report.measure("cutTexts()") == []
        assert report.measure(f"faintTexts({CONTRAST})") == []
        assert report.measure("colours().page") == "rgb(255, 255, 255)"
        rows = page.locator("tr")
        assert set(rows.evaluate_all("of => of.map(r => getComputedStyle(r).breakInside)")) == {
            "avoid"
        }


def test_a_dark_page_prints_and_is_dark_again(opened: Open) -> None:
    report = opened("rich", theme="dark")
    before = report.measure("colours()")
    paper = report.page.pdf(prefer_css_page_size=True)
    assert len(re.findall(rb"/Type\s*/Page\b", paper)) > 3
    assert report.measure("colours()") == before
    assert report.measure("overflowing()") == []


def test_large_report_is_interactive_in_seconds(
    browser: Browser, files: dict[str, Path], figure: Figure
) -> None:
    seconds = core_s_until_idle(browser, files["large"])
    figure("CPU seconds until a report of 20 devices × 10 workloads is idle", seconds, "2")
    assert seconds < 10 * INTERACTIVE_S


def test_the_library_runs_when_a_chart_comes_near(browser: Browser, files: dict[str, Path]) -> None:
    with browser.new_page(viewport={"width": DESKTOP, "height": 900}) as page:
        page.goto(files["large"].as_uri())
        assert page.evaluate(IDLE)
        assert page.evaluate("typeof Plotly") == "undefined"
        page.locator(".plot").first.scroll_into_view_if_needed()
        page.wait_for_selector(".plot .main-svg")
        assert page.locator(".plot:has(.main-svg)").count() < page.locator(".plot").count()


def test_without_scripts_the_tables_say_it_all(browser: Browser, files: dict[str, Path]) -> None:
    context = browser.new_context(java_script_enabled=False)
    with context.new_page() as page:
        page.goto(files["comparison"].as_uri())
        assert page.get_by_text("Charts need JavaScript; the tables say the same.").is_visible()
        assert page.locator("table.ranking tbody tr").count() == 4
    context.close()
