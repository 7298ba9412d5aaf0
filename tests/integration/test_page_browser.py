"""The page as Debian's Chromium shows it: wide and narrow, light and dark, while a sweep runs."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from controller.contracts.records import Scope, Token
from tests.support.api import SECRETS, digest_of, prepared
from tests.support.chromium import chromium
from tests.support.figures import Figure
from tests.support.opened_pages import Opened, listening
from tests.support.page import Farm, farm_with_page, page_served
from tests.support.page_store import add_files, add_hostile, add_large, runs_in
from tests.support.waiting import PATIENCE_S

pytestmark = pytest.mark.integration

CONTRAST = 4.5
"""Least contrast of text that WCAG 2.2 asks for (level AA, 1.4.3)."""
DRAWN = """new Promise(resolve => {
  const look = () => ["drawn", undefined].includes(document.documentElement.dataset.charts)
    ? requestIdleCallback(() => resolve(true)) : requestAnimationFrame(look);
  look();
})"""
SETTLED = """new Promise(resolve => {
  const drawn = () => requestIdleCallback(() => resolve(true));
  requestAnimationFrame(() => requestAnimationFrame(drawn));
})"""
"""Whoever hears of another theme in the next frame has drawn its charts again."""
PATHS = (
    *("/", "/sweeps", "/sweeps/{sweep}", "/results", "/runs/{result}", "/runs/{failed}"),
    "/runs/{result}/profile",
    *("/compare?device=host-1", "/devices/phone-1", "/search?q=host"),
)
FIRST_PAINT = """new Promise(resolve => {
  new PerformanceObserver(list => {
    const [first] = list.getEntriesByName("first-contentful-paint");
    if (first) resolve(first.startTime / 1000);
  }).observe({type: "paint", buffered: true});
})"""
THEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")


@dataclass(frozen=True, slots=True)
class Shown:
    """A farm whose page is shown, and the ids of what it has."""

    farm: Farm
    ids: dict[str, str]

    def at(self, path: str) -> str:
        return self.farm.url + path.format(**self.ids)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    home = prepared(tmp_path_factory.mktemp("page") / "home")
    record = add_hostile(home)
    runs = [run.run_id for run in runs_in(record)]
    add_files(home, runs[0])
    names = ("result", "invalid", "failed", "leased", "queued")
    with farm_with_page(home) as farm:
        yield Shown(farm, {"sweep": record.sweep_id, **dict(zip(names, runs, strict=False))})


def serious(page: Page, only: Sequence[str] = ()) -> list[str]:
    """Return what axe finds on a page that is serious or critical; only: by these rules."""
    axe = pytest.importorskip(
        "axe_playwright_python.sync_playwright",
        reason="axe-playwright-python is missing; get it with: make setup",
    )
    options = {"resultTypes": ["violations"], **({"runOnly": only} if only else {})}
    found = axe.Axe().run(page, options=options).response["violations"]
    return [
        f"{rule['id']} ({rule['impact']}): {node['target'][0]}"
        for rule in found
        if rule["impact"] in ("serious", "critical")
        for node in rule["nodes"]
    ]


def signed_in(context: BrowserContext, address: str) -> Page:
    """Open a page, which leads to the form, and sign in there by keyboard."""
    page = context.new_page()
    page.goto(address)
    expect(page.get_by_label("Token")).to_be_focused()
    page.keyboard.type(SECRETS[Scope.SUBMITTER])
    page.keyboard.press("Enter")
    page.wait_for_url(address)
    return page


@pytest.mark.parametrize("width", [390, 1280])
def test_pages_complain_of_nothing_and_ask_nobody_else(
    browser: Browser, shown: Shown, width: int
) -> None:
    context = browser.new_context(viewport={"width": width, "height": 900})
    page = signed_in(context, shown.at("/"))
    for path in PATHS:
        opened: Opened = listening(context.new_page())
        opened.page.goto(shown.at(path))
        assert opened.page.evaluate(DRAWN)
        wide = opened.measure("[document.documentElement.scrollWidth, innerWidth]")
        assert wide == [width, width], path
        for what in ("overflowing()", "overlaps()", "unreadableTables()"):
            assert opened.measure(what) == [], (path, what)
        for theme in THEMES:
            opened.page.emulate_media(color_scheme=theme)
            assert opened.page.evaluate(SETTLED)
            assert opened.measure(f"faintTexts({CONTRAST})") == [], (path, theme)
            rules = () if theme == "light" else ("color-contrast",)  # all that colours change
            assert serious(opened.page, rules) == [], (path, theme)
        opened.page.emulate_media(media="print")
        assert opened.measure("overflowing()") == [], path
        expect(opened.page.get_by_role("button", name="Sign out")).to_be_hidden()
        assert opened.complaints == []
        others = [url for url in opened.requests if not url.startswith((shown.farm.url, "data:"))]
        assert others == []
        opened.page.close()
    page.get_by_role("button", name="Sign out").click()
    page.wait_for_url("**/sign-in")
    assert serious(page) == []
    page.goto(shown.at("/sweeps"))
    expect(page.get_by_label("Token")).to_be_visible()
    context.close()


def test_what_axe_finds_is_seen(browser: Browser) -> None:
    with browser.new_page() as page:
        page.set_content("<html lang=en><title>x</title><main><h1>x</h1><button></button></main>")
        assert serious(page) == ["button-name (critical): button"]


def test_a_sweep_is_cancelled_and_who_follows_it_sees_that(
    browser: Browser, shown: Shown, figure: Figure
) -> None:
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = signed_in(context, shown.at("/sweeps/{sweep}"))
    opened, follower = listening(page), listening(context.new_page())
    follower.page.goto(shown.at("/sweeps/{sweep}"))
    followed = follower.page.locator("#progress")
    expect(followed).to_contain_text("3 of 8 runs have ended")
    follower.page.get_by_text("Cancel this sweep").click()
    follower.page.locator("[data-updates]").first.wait_for()
    expect(follower.page.get_by_role("button", name="Cancel its open runs")).to_be_visible()
    page.get_by_text("Cancel this sweep").click()
    begun = time.monotonic()
    page.get_by_role("button", name="Cancel its open runs").click()
    expect(page.get_by_text("5 runs were cancelled.")).to_be_visible()
    expect(followed).to_contain_text("8 of 8 runs have ended")
    figure("seconds until a page shows what another has changed", time.monotonic() - begun, "1")
    expect(followed).to_contain_text("5 cancelled")
    expect(follower.page.get_by_text("Cancel this sweep")).to_have_count(0)
    expect(follower.page.locator("#running")).to_contain_text("No run is under way")
    assert opened.complaints == follower.complaints == []
    context.close()


def test_a_server_that_does_not_answer_any_more_is_told_of(browser: Browser, shown: Shown) -> None:
    context = browser.new_context()
    page = signed_in(context, shown.at("/"))
    page.locator("[data-updates]").first.wait_for()
    expect(page.locator("#stale")).to_be_hidden()
    hanging = [True]
    page.route("**/live/**", lambda route: None if hanging else route.continue_())
    patience = (
        "ms => document.querySelectorAll('[data-live]').forEach(one => one.dataset.patienceMs = ms)"
    )
    page.evaluate(patience, 50)
    # A request of before still has its own patience.
    stale = expect(page.locator("#stale"))
    stale.to_contain_text("Not up to date since", timeout=PATIENCE_S * 1000)
    hanging.clear()
    page.evaluate(patience, 60_000)
    expect(page.locator("#stale")).to_be_hidden(timeout=PATIENCE_S * 1000)
    context.close()


def test_who_follows_a_link_from_elsewhere_is_still_signed_in(
    browser: Browser, shown: Shown
) -> None:
    """A cookie that is SameSite=Strict is not sent with such a link's own request."""
    context = browser.new_context()
    signed_in(context, shown.at("/"))
    page = context.new_page()
    page.route(
        "http://elsewhere.example/",
        lambda route: route.fulfill(
            content_type="text/html", body=f'<a href="{shown.at("/sweeps")}">a link</a>'
        ),
    )
    page.goto("http://elsewhere.example/")
    page.get_by_text("a link").click()
    page.wait_for_url(shown.at("/sweeps"))
    expect(page.get_by_role("heading", name="Sweeps")).to_be_visible()
    context.close()


def test_who_mistypes_a_token_or_has_a_new_one_gets_where_the_link_leads(
    browser: Browser, shown: Shown
) -> None:
    address, former, newer = shown.at("/sweeps"), "d0" * 32, "d1" * 32
    context = browser.new_context()
    page = context.new_page()
    save_token(shown.farm, former)
    page.goto(address)
    for typed in (former[:-1], former):
        expect(page.get_by_label("Token")).to_be_focused()
        page.keyboard.type(typed)
        page.keyboard.press("Enter")
        page.wait_for_url("**/sign-in" if typed != former else address)
    expect(page.get_by_role("heading", name="Sweeps")).to_be_visible()
    save_token(shown.farm, newer)
    page.goto(address)
    expect(page.get_by_label("Token")).to_be_focused()
    page.keyboard.type(newer)
    page.keyboard.press("Enter")
    page.wait_for_url(address)
    expect(page.get_by_role("heading", name="Sweeps")).to_be_visible()
    context.close()


def save_token(farm: Farm, secret: str) -> None:
    """Give a viewer this token instead of a former one."""
    token = Token(name="dora", digest=digest_of(secret), created_at=1.0, scope=Scope.VIEWER)
    farm.do(lambda box: box.store.save_token(token))


@pytest.mark.hardware
def test_pages_of_a_large_store_paint_within_a_second(
    browser: Browser, tmp_path: Path, figure: Figure
) -> None:
    """Times the wall, so it wants a machine with nothing else to do.

    100,000 results of 20 devices and 10 workloads; storing them takes minutes.
    """
    home = prepared(tmp_path / "home", sweeps=1)
    add_large(home, 100_000)
    with page_served(home) as api, browser.new_context() as context:
        page = signed_in(context, f"{api.url}/")
        for path, promised in (("/", 1), ("/sweeps", 1), ("/results?stack=torch", 1)):
            page.goto(api.url + path)
            figure(f"seconds until {path} paints first", page.evaluate(FIRST_PAINT), str(promised))
        page.goto(api.url + "/sweeps")
        page.locator("tbody a[href^='/sweeps/']").first.click()
        page.wait_for_url("**/sweeps/large-*")
        figure("seconds until a sweep paints first", page.evaluate(FIRST_PAINT), "1")
        page.goto(api.url + "/compare?stack=torch")
        assert page.locator(".ranking tbody tr").count() == 200
        figure(
            "seconds until 20 devices × 10 workloads paint first", page.evaluate(FIRST_PAINT), "2"
        )
