"""The files and the profile of a run on the page: what is listed, served, and shown as text."""

from __future__ import annotations

import hashlib
import html
import re
from collections.abc import Iterator
from dataclasses import dataclass

import httpx
import pytest

from controller.page.run_files import kind_of
from controller.reports.html.profile import profile_html
from controller.store.artefacts.folder import FolderArtefacts
from tests.support.api import Served, prepared
from tests.support.artefacts import LOG, RAW, SWEEP, TRACE, artefact, fill_artefacts, noise, send
from tests.support.page import browser, page_served
from tests.support.page_store import MARKUP, add_files, add_hostile, hostile_profile, runs_in

NAME = f"{MARKUP}.txt"


@dataclass(frozen=True, slots=True)
class Farm:
    """A page, and the runs that it has: with all kinds of files, with a profile, without any."""

    api: Served
    with_files: str
    profiled: str
    bare: str


@pytest.fixture(scope="module")
def farm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Farm]:
    home = prepared(tmp_path_factory.mktemp("files") / "home", sweeps=1)
    runs = [run.run_id for run in runs_in(add_hostile(home))]
    fill_artefacts(home.artefacts, runs[0])
    add_files(home, runs[1])
    store = FolderArtefacts(home.artefacts, room_bytes=0)
    try:
        send(store, artefact(LOG, NAME, runs[0]), LOG)
        store.offer(artefact(noise(9), "profile/profile.json", runs[0], attempt=3), SWEEP, 1.0)
    finally:
        store.close()
    with page_served(home) as api:
        yield Farm(api, *runs[:3])


@pytest.fixture(scope="module")
def viewer(farm: Farm) -> Iterator[httpx.Client]:
    with browser(farm.api) as client:
        yield client


def rows_of(page: str) -> dict[str, str]:
    """Return the rows of the list of files by the text of their first cell."""
    body = page.partition('id="files"')[2].partition("</section>")[0]
    rows = re.findall(r"<tr>\s*<th scope=\"row\">(.*?)</th>(.*?)</tr>", body, re.DOTALL)
    return {html.unescape(re.sub("<[^>]*>", "", name)): name + rest for name, rest in rows}


def address_of(row: str) -> str:
    """Return the address that a row links to, empty without one."""
    found = re.search(r'href="([^"]*)"', row)
    return html.unescape(found[1]) if found else ""


def test_a_run_lists_its_files_and_where_each_is(farm: Farm, viewer: httpx.Client) -> None:
    rows = rows_of(viewer.get(f"/runs/{farm.with_files}").text)
    assert [*rows] == [
        *(f"1/{NAME}", "1/latencies_ns.npy", "1/performance/mlperf_log_summary.txt"),
        *("2/late.bin", "2/trace.json", "3/profile/profile.json"),
    ]
    summary = rows["1/performance/mlperf_log_summary.txt"]
    for said in ("LoadGen log", f"{len(LOG):,}", hashlib.sha256(LOG).hexdigest()):
        assert said in summary
    assert "agent host-1 sends it" in rows["2/late.bin"]
    assert "expired" in rows["1/latencies_ns.npy"]
    linked = [name for name, row in rows.items() if address_of(row)]
    assert linked == [f"1/{NAME}", "1/performance/mlperf_log_summary.txt", "2/trace.json"]
    assert rows_of(viewer.get(f"/runs/{farm.bare}").text) == {}


def test_a_file_is_served_to_who_has_signed_in_whole_or_in_part(
    farm: Farm, viewer: httpx.Client
) -> None:
    rows = rows_of(viewer.get(f"/runs/{farm.with_files}").text)
    address = address_of(rows["2/trace.json"])
    assert address.endswith("/trace.json")
    whole = viewer.get(address)
    assert (whole.status_code, whole.content) == (200, TRACE)
    assert whole.headers["Content-Disposition"] == "attachment"
    assert whole.headers["Content-Type"] == "application/octet-stream"
    assert whole.headers["X-Content-Type-Options"] == "nosniff"
    part = viewer.get(address, headers={"Range": "bytes=100000-100099"})
    assert (part.status_code, part.content) == (206, TRACE[100_000:100_100])
    assert viewer.get(address_of(rows[f"1/{NAME}"])).content == LOG
    with browser(farm.api, None) as stranger:
        refused = stranger.get(address)
        assert (refused.status_code, refused.headers["Location"][:9]) == (303, "/sign-in?")


@pytest.mark.parametrize("sha256", ["0" * 64, "x", "..", hashlib.sha256(RAW).hexdigest()])
def test_a_content_that_is_not_there_is_a_page_that_says_so(
    viewer: httpx.Client, sha256: str
) -> None:
    page = viewer.get(f"/artefacts/{sha256}/x")
    assert page.status_code == 404
    assert page.headers["Content-Type"].startswith("text/html")


def test_a_profile_has_the_view_of_the_report(farm: Farm, viewer: httpx.Client) -> None:
    run = viewer.get(f"/runs/{farm.profiled}").text
    (address,) = re.findall(rf'href="(/runs/{farm.profiled}/profile\?attempt=1)"', run)
    page = viewer.get(address)
    assert page.status_code == 200
    report = profile_html(hostile_profile(), "x")
    for section in re.findall(r'<section id="([a-z-]+)"', report):
        assert f'<section id="{section}"' in page.text, section
    tables = re.compile(r"<tbody>.*?</tbody>", re.DOTALL)
    assert tables.findall(page.text) == tables.findall(report) != []
    for script in ("page.js", "find.js"):
        assert re.search(rf'<script src="/static/[0-9a-f]{{16}}/{script}"></script>', page.text)
    policy = page.headers["Content-Security-Policy"]
    assert "script-src 'self'; " in policy
    assert "unsafe" not in policy.partition("style-src")[0]
    assert MARKUP not in page.text
    assert html.escape(MARKUP, quote=False).partition('"')[0] in page.text
    assert viewer.get(f"/runs/{farm.profiled}/profile").text == page.text


@pytest.mark.parametrize(
    ("path", "status"),
    [
        *(("/runs/{0.bare}/profile", 404), ("/runs/none/profile", 404)),
        *(("/runs/{0.with_files}/profile", 404), ("/runs/{0.profiled}/profile?attempt=2", 404)),
        *(("/runs/{0.profiled}/profile?attempt=0", 422), ("/runs/{0.profiled}/profile?x=1", 422)),
    ],
)
def test_a_profile_that_is_not_there_is_a_page_that_says_so(
    farm: Farm, viewer: httpx.Client, path: str, status: int
) -> None:
    page = viewer.get(path.format(farm))
    assert page.status_code == status
    assert page.headers["Content-Type"].startswith("text/html")


def test_a_profile_that_is_still_with_its_agent_is_not_linked(
    farm: Farm, viewer: httpx.Client
) -> None:
    assert "/profile?attempt=" not in viewer.get(f"/runs/{farm.with_files}").text


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *(("profile/kernels.parquet", "profile"), ("output.log", "output")),
        *(("performance/mlperf_log_trace.json", "LoadGen log"), ("x/trace.json", "JSON file")),
        *(("raw", "file"), ("a.b/raw", "file")),
    ],
)
def test_the_kind_of_a_file_is_told_by_its_name(name: str, kind: str) -> None:
    assert kind_of(name) == kind
