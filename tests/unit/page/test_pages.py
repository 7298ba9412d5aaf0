"""What pages show, to whom, and that no text on them is markup."""

from __future__ import annotations

import gc
import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path

import httpx
import pytest

from controller.contracts.records import Scope
from controller.contracts.sweep import Cell
from controller.page.kept import Kept, marker_of
from controller.page.pages import REPORTS_KEPT
from controller.reports.html.page import Page
from controller.scheduling.binding import runs_of
from controller.store.sqlite import SqliteStore
from tests.support.api import Served, prepared
from tests.support.page import browser, form_key_of, page_served
from tests.support.page_store import HOSTILE, add_hostile, runs_in
from tests.support.store_examples import failure, grant, lose, report, result, sweep_record
from tests.support.waiting import eventually

ALL = (
    *("/", "/sweeps", "/sweeps/{sweep}", "/results", "/results?validity=INVALID"),
    *("/runs/{result}", "/runs/{invalid}", "/runs/{failed}", "/runs/{queued}", "/sign-in"),
    *("/compare", "/compare?device=host-1&workload=retinanet_resnext50", "/sweeps/{sweep}/report"),
    *("/devices/host-1", "/devices/phone-1", "/search", "/search?q=hostile", "/search?q=<script>"),
)
PARTS = ("/live/fleet", "/live/queue", "/live/sweeps/{sweep}", "/live/sweeps/{sweep}/queue")


@dataclass(frozen=True, slots=True)
class Farm:
    """A farm with hostile texts, and the ids of what it has."""

    api: Served
    ids: dict[str, str]

    def at(self, path: str) -> str:
        return path.format(**self.ids)


@pytest.fixture(scope="module")
def farm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Farm]:
    home = prepared(tmp_path_factory.mktemp("pages") / "home")
    record = add_hostile(home)
    runs = [run.run_id for run in runs_in(record)]
    ids = dict(zip(("result", "invalid", "failed", "leased", "queued"), runs, strict=False))
    with page_served(home) as api:
        yield Farm(api, {"sweep": record.sweep_id, **ids})


@pytest.fixture(scope="module")
def viewer(farm: Farm) -> Iterator[httpx.Client]:
    with browser(farm.api) as client:
        yield client


class Elements(HTMLParser):
    """Tags of a page with their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


@pytest.mark.parametrize("path", [*ALL, *PARTS])
def test_no_text_is_markup_and_nothing_is_inline(
    farm: Farm, viewer: httpx.Client, path: str
) -> None:
    page = viewer.get(farm.at(path))
    assert page.status_code == 200
    elements = Elements(page.text).found
    assert elements != []
    assert all(tag != "img" for tag, _ in elements)
    for tag, attributes in elements:
        assert not [name for name in attributes if name.startswith("on")], (tag, attributes)
        if tag == "script":
            assert (attributes.get("src") or "").startswith("/static/") or attributes.get(
                "type"
            ) in ("application/json", "text/plain")
    assert "\u202e" not in page.text
    policy = page.headers["Content-Security-Policy"]
    assert "default-src 'none'; script-src 'self'; " in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy.partition("style-src")[0]
    for name, value in {
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
        "Referrer-Policy": "same-origin",
    }.items():
        assert page.headers[name] == value


@pytest.mark.parametrize(
    "path",
    [
        *("/", "/sweeps/{sweep}", "/results", "/runs/{invalid}", "/runs/{failed}"),
        *("/devices/phone-1", "/devices/host-1", "/sweeps/{sweep}/report"),
        "/compare",
    ],
)
def test_hostile_texts_are_shown_as_texts(farm: Farm, viewer: httpx.Client, path: str) -> None:
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in viewer.get(farm.at(path)).text
    assert HOSTILE not in viewer.get(farm.at(path)).text


def test_the_fleet_shows_devices_runs_and_why_it_is_away(farm: Farm, viewer: httpx.Client) -> None:
    page = viewer.get("/").text
    for said in ("phone-1", "the farm is down", farm.ids["leased"], "lost"):
        assert said in page
    assert 'data-live="/live/fleet"' in page


def test_a_sweep_shows_how_far_it_is(farm: Farm, viewer: httpx.Client) -> None:
    page = viewer.get(farm.at("/sweeps/{sweep}")).text
    assert "<strong>3 of 8 runs have ended</strong>: 4 queued, 1 leased, 2 done, 1 failed" in page
    assert 'class="bad">workload</td>' in page, "the blame"
    assert farm.ids["leased"] in page.partition('id="running"')[2].partition("</section>")[0]


def test_a_result_has_its_samples_conditions_and_provenance(
    farm: Farm, viewer: httpx.Client
) -> None:
    page = viewer.get(farm.at("/runs/{result}")).text
    for said in (
        "step_time",
        "350 ms",
        "250 ms",
        "governor",
        "not readable",
        "retinanet_resnext50",
    ):
        assert said in page, said
    assert "checksums of its files" in page, "what is not recorded"
    assert re.search(r'id="plotly" data-src="/static/[0-9a-f]{16}/plotly\.js"', page)
    assert (
        "'unsafe-inline'"
        in viewer.get(farm.at("/runs/{result}"))
        .headers["Content-Security-Policy"]
        .partition("style-src")[2]
    ), "plotly.js adds style rules"


def test_a_filter_that_is_empty_is_none(farm: Farm, viewer: httpx.Client) -> None:
    shown = viewer.get("/results", params={"stack": "torch", "device": "", "validity": ""}).text
    assert shown.count('<th scope="row">') == 2
    assert 'value="torch"' in shown


def test_lists_are_read_page_by_page(farm: Farm, viewer: httpx.Client) -> None:
    seen: list[str] = []
    address = "/results?limit=7"
    while address:
        page = viewer.get(address).text
        seen += re.findall(r'<th scope="row"><a href="/runs/([^"]+)"', page)
        older = re.search(r'href="([^"]+)" rel="next"', page)
        address = older[1].replace("&amp;", "&") if older else ""
    with closing(SqliteStore.open_reader(farm.api.home.store)) as store:
        every = [result.run_id for result in store.results()]
    assert len(seen) > 14
    assert sorted(seen) == sorted(every)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        *(("/nothing", 404), ("/sweeps/none", 404), ("/runs/none", 404), ("/live/sweeps/x", 404)),
        *(("/results?validity=GOOD", 422), ("/results?x=1", 422), ("/results?cursor=x", 422)),
        *(("/devices/none", 404), ("/sweeps/none/report", 404), ("/compare?x=1", 422)),
        *(("/compare?device=" + "x" * 201, 422), ("/search?q=" + "x" * 101, 422)),
        *(("/devices/host-1?before=x", 422), ("/sweeps/{sweep}/report?x=1", 422)),
        *(("/static/0000000000000000/page.css", 404), ("/static/x/../../x", 404)),
        *(("/runs/%3Cscript%3E", 404), ("/sweeps/%E2%80%AE", 404)),
    ],
)
def test_what_is_not_there_is_a_page_that_says_so(
    farm: Farm, viewer: httpx.Client, path: str, status: int
) -> None:
    page = viewer.get(farm.at(path) if "{" in path else path)
    assert page.status_code == status
    assert page.headers["Content-Type"].startswith("text/html")
    assert "<script>" not in page.text
    assert "\u202e" not in page.text


def test_a_page_that_has_not_changed_is_not_sent_again(farm: Farm, viewer: httpx.Client) -> None:
    first = viewer.get(farm.at("/live/sweeps/{sweep}"))
    again = viewer.get(
        farm.at("/live/sweeps/{sweep}"), headers={"If-None-Match": first.headers["ETag"]}
    )
    assert (again.status_code, again.content) == (304, b"")


def test_what_changes_is_there_after_a_moment(tmp_path: Path) -> None:
    home = prepared(tmp_path / "home", sweeps=1)
    record = add_hostile(home)
    runs = runs_in(record)
    with page_served(home) as api, browser(api) as one, closing(SqliteStore.open(home.store)) as to:
        part = f"/live/sweeps/{record.sweep_id}"
        assert "3 of 8 runs have ended" in one.get(part).text
        leased = grant(runs[4], now=3000.0)
        to.save_runs([leased])
        eventually(lambda: runs[4].run_id in one.get(part).text, "the run is under way")
        to.save_runs([report(leased.run, result(), now=3002.0)])
        ended = "4 of 8 runs have ended"
        eventually(lambda: ended in one.get(part).text, "the run has ended")
        assert ended in one.get(f"/sweeps/{record.sweep_id}").text


def test_many_viewers_cost_one_reading(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("")
    now, made = [0.0], list[int]()
    kept = Kept(lambda: now[0], most=2)

    def make() -> int:
        made.append(1)
        return len(made)

    def look(of: str = "a") -> int:
        marker = marker_of(tmp_path / "store")
        return kept.get(of, marker, 10.0, make)

    assert [look(), look()] == [1, 1]
    (tmp_path / "store-wal").write_text("x")
    assert [look(), look()] == [2, 2]
    now[0] = 10.0
    assert look() == 3
    assert [look("b"), look("c"), look("b"), look("a")] == [4, 5, 4, 6]


def test_what_is_costly_takes_a_bounded_share_of_the_time() -> None:
    now, made = [0.0], list[float]()
    kept = Kept(lambda: now[0])

    def make() -> int:
        made.append(now[0])
        now[0] += 2.0
        return len(made)

    for marker in range(100):
        kept.get("a", marker, 10.0, make, rest=20.0)
        now[0] += 1.0
    assert made == [0.0, 42.0, 84.0]


@pytest.mark.parametrize(
    ("scope", "sweep", "shown"),
    [
        (Scope.VIEWER, "own", False),
        (Scope.SUBMITTER, "own", True),
        (Scope.SUBMITTER, "other", False),
        (Scope.ADMINISTRATOR, "own", True),
        (Scope.ADMINISTRATOR, "other", True),
    ],
)
def test_who_may_not_cancel_is_not_offered_it(
    farm: Farm, viewer: httpx.Client, scope: Scope, sweep: str, shown: bool
) -> None:
    listed = re.findall(r'href="/sweeps/(demo-[^"]+)"', viewer.get("/sweeps").text)
    sweep_id = farm.ids["sweep"] if sweep == "own" else listed[0]
    with browser(farm.api, scope) as one:
        assert (f"/sweeps/{sweep_id}/cancel" in one.get(f"/sweeps/{sweep_id}").text) is shown


def test_a_viewer_cannot_cancel(farm: Farm, viewer: httpx.Client) -> None:
    key = form_key_of(viewer.get("/").text)
    refused = viewer.post(farm.at("/sweeps/{sweep}/cancel"), data={"form_key": key})
    assert refused.status_code == 403
    assert "is of scope viewer" in refused.text


def test_without_a_controller_nothing_is_cancelled_and_the_page_says_so(farm: Farm) -> None:
    with browser(farm.api, Scope.SUBMITTER) as one:
        key = form_key_of(one.get("/").text)
        refused = one.post(farm.at("/sweeps/{sweep}/cancel"), data={"form_key": key})
    assert refused.status_code == 503
    assert "controller cannot be reached" in refused.text


def test_files_are_kept_by_browsers_under_addresses_that_change_with_them(
    viewer: httpx.Client,
) -> None:
    page = viewer.get("/").text
    addresses = re.findall(r'(?:href|src)="(/static/[^"]+)"', page)
    assert len(addresses) == 3
    for address in addresses:
        file = viewer.get(address)
        assert file.status_code == 200
        assert "immutable" in file.headers["Cache-Control"]


def test_chosen_devices_and_workloads_are_set_against_each_other(
    farm: Farm, viewer: httpx.Client
) -> None:
    every = viewer.get("/compare").text
    assert 'id="verdict"' in every
    assert every.count('class="ranking"') == 3, "of two workloads, one also on virtual devices"
    assert 'value="phone-1"' in every.partition('action="/compare"')[2].partition("</form>")[0]
    assert re.search(r'value="phone-1"> [^<]*phone-1 \(virtual\)</label>', every)
    one = viewer.get("/compare?device=host-1&stack=torch").text
    assert re.search(r'name="device" value="host-1" checked', one)
    assert "Nothing has been measured yet" in viewer.get("/compare?device=phone-1&stack=torch").text
    report = viewer.get(farm.at("/sweeps/{sweep}/report"))
    assert "Attempts that measured nothing" in report.text
    assert "Sweep hostile" in report.text


def test_a_comparison_tells_of_failures(farm: Farm, viewer: httpx.Client) -> None:
    page = viewer.get("/compare").text
    assert "No attempt failed." not in page
    failed = page.partition('id="failures"')[2].partition("</section>")[0]
    assert farm.ids["failed"] in failed


def test_a_delegate_whose_newest_run_failed_is_not_said_to_work(tmp_path: Path) -> None:
    home = prepared(tmp_path / "home", sweeps=1)
    record = sweep_record("delegates")
    knobs = {"delegate": "gpu"}
    cell = Cell(
        workload="retinanet", stack="eager", scenario="training", knobs=knobs, selector="any"
    )
    runs = runs_of(record.sweep, record.sweep_id, [cell], now=1500.5)
    took = {"graph_nodes": 8, "delegated_nodes": 8}
    crash = failure().model_copy(update={"kind": "crash"})
    outcomes = result().model_copy(update={"environment": took}), crash
    with page_served(home) as api, browser(api) as one, closing(SqliteStore.open(home.store)) as to:
        to.add_sweep(record, runs)
        # Each asks for another report: one stands for a moment, whatever is stored.
        for number, (said, stack) in enumerate((("works", ""), ("fails", "eager"))):
            leased = grant(runs[number], now=3000.0 + 10 * number)
            to.save_runs([leased])
            to.save_runs([report(leased.run, outcomes[number], now=3002.0 + 10 * number)])
            page = one.get(f"/compare?device=host-1&stack={stack}").text
            delegates = page.partition('id="delegates"')[2].partition("</section>")[0]
            assert re.findall(r'<span class="(works|fails)">', delegates) == [said]


def test_a_sweep_s_report_tells_of_late_results(tmp_path: Path) -> None:
    home = prepared(tmp_path / "home", sweeps=1)
    record = add_hostile(home)
    run = runs_in(record)[4]
    with closing(SqliteStore.open(home.store)) as store:
        leased = grant(run, now=3000.0)
        lost = lose(leased.run, 3030.0)
        again = grant(lost.run, now=3040.0)
        for change in (leased, lost, again, report(again.run, result(), 1, 3050.0)):
            store.save_runs([change])
    with page_served(home) as api, browser(api) as one:
        assert "1 late, not counted" in one.get(f"/sweeps/{record.sweep_id}/report").text


def reports_in_memory() -> int:
    gc.collect()
    return sum(isinstance(one, Page) for one in gc.get_objects())


def test_few_of_the_reports_that_were_shown_are_kept(viewer: httpx.Client) -> None:
    before = reports_in_memory()
    for number in range(2 * REPORTS_KEPT):
        assert viewer.get("/compare", params={"device": f"none-{number}"}).status_code == 200
    assert reports_in_memory() <= before + REPORTS_KEPT
    assert REPORTS_KEPT <= 16, "each may be megabytes"


def test_a_device_has_its_history_with_its_holds(farm: Farm, viewer: httpx.Client) -> None:
    page = viewer.get("/devices/phone-1").text
    history = page.partition('id="history"')[2].partition("</section>")[0]
    assert "<td>quarantined</td><td>ann</td>" in history
    assert "1970-01-01 00:00:03 UTC" in history
    older = viewer.get("/devices/phone-1?before=4.0").text.partition('id="history"')[2]
    assert older.count('<th scope="row">1970') == 1 + older.count("begun")
    assert "Nothing older is known." in viewer.get("/devices/host-1?before=4.0").text


@pytest.mark.parametrize(
    ("asked", "kind", "address"),
    [
        ("HOSTILE", "sweep", "/sweeps/{sweep}"),
        ("paper", "sweep", "/sweeps/{sweep}"),
        ("submitter", "sweep", "/sweeps/{sweep}"),
        ("phone", "device", "/devices/phone-1"),
        ("xeon", "device", "/devices/host-1"),
        ("rack=", "device", "/devices/host-1"),
        ("{result}", "run", "/runs/{result}"),
        ("torch", "stack", "/results?stack=torch"),
        ("resnext", "workload", "/results?workload=retinanet_resnext50"),
    ],
)
def test_a_search_finds_what_has_a_text_in_its_name(
    farm: Farm, viewer: httpx.Client, asked: str, kind: str, address: str
) -> None:
    page = viewer.get("/search", params={"q": farm.at(asked)}).text
    assert f'<td>{kind}</td><th scope="row"><a href="{farm.at(address)}">' in page


def test_a_search_for_nothing_or_for_what_is_not_there_says_so(viewer: httpx.Client) -> None:
    assert "Type a part of the name" in viewer.get("/search?q=%20").text
    assert "Nothing has this in its name" in viewer.get("/search?q=zzz%25_").text
