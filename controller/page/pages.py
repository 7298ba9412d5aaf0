"""What each address of the page shows, as a function of the store and the request."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import quote, urlencode

from aiohttp import web

from controller.api import reads
from controller.api.queries import NoQuery, ResultQuery, SweepQuery, parse
from controller.api.reads import Reading
from controller.contracts.base import scalar_text, utc_minute
from controller.contracts.device import likeness
from controller.contracts.records import Scope, SweepRecord
from controller.contracts.result import Validity
from controller.page.compare import choices, chosen_of, comparison, sweep_report
from controller.page.devices import HistoryQuery, device_view
from controller.page.fleet import fleet_now, queue_now
from controller.page.kept import Kept
from controller.page.responses import View, Visitor
from controller.page.results import figures_of, run_view
from controller.page.run_files import AttemptQuery, profile_address, run_profile_page
from controller.page.search import MOST, SearchQuery, search
from controller.page.sweeps import sweep_now, sweep_page
from controller.reports.figures import shown
from controller.reports.html.page import Page
from controller.reports.views.common import moment

SWEEPS_SHOWN: Final = 25
RESULTS_SHOWN: Final = 50
PROFILES_KEPT: Final = 4
"""Each may be megabytes."""
REPORTS_KEPT: Final = 8
"""Comparisons and reports of sweeps; the same holds for them."""
ASKING: Final = ("/live/queue", "/live/sweeps/{sweep_id}/queue")
"""Parts that wait for the controller, which may be stuck."""
WORDS: Final[Mapping[str, object]] = {
    "moment": moment,
    "utc_minute": utc_minute,
    "shown": shown,
    "scalar_text": scalar_text,
    "figures_of": figures_of,
    "likeness": likeness,
    "profile_address": profile_address,
}
"""What templates write figures, times and names with."""
Context = Mapping[str, object]
Make = Callable[[Reading, web.Request, Visitor], View]
MakePart = Callable[[Reading, web.Request, Visitor], tuple[str, Context]]


class Pages:
    """Makes pages and the parts of them that follow the store."""

    def __init__(self, kept: Kept) -> None:
        self._kept = kept
        self._profiles = Kept(most=PROFILES_KEPT)
        self._reports = Kept(most=REPORTS_KEPT, shared_rest=True)

    @property
    def by_address(self) -> Mapping[str, Make]:
        """Address → what makes the page there."""
        return {
            "/": self.fleet,
            "/sweeps": self.sweeps,
            "/sweeps/{sweep_id}": self.sweep,
            "/sweeps/{sweep_id}/report": self.report,
            "/results": self.results,
            "/runs/{run_id}": self.run,
            "/runs/{run_id}/profile": self.profile,
            "/compare": self.compare,
            "/devices/{device_id}": self.device,
            "/search": self.search,
        }

    @property
    def parts_by_address(self) -> Mapping[str, MakePart]:
        """Address → what makes the part of a page there."""
        return {
            "/live/fleet": self.fleet_part,
            "/live/queue": self.queue_part,
            "/live/sweeps/{sweep_id}": self.sweep_part,
            "/live/sweeps/{sweep_id}/queue": self.queue_part,
        }

    def fleet(self, farm: Reading, request: web.Request, visitor: Visitor) -> View:
        """Return the fleet now."""
        _, context = self.fleet_part(farm, request, visitor)
        return View("Fleet", "fleet.html", context, place="/")

    def fleet_part(
        self, farm: Reading, _: web.Request, __: Visitor
    ) -> tuple[str, Mapping[str, object]]:
        """Return the fleet now, as a part that is asked for again."""
        return "fleet_live.html", {**WORDS, "fleet": fleet_now(farm, self._kept)}

    def queue_part(
        self, farm: Reading, request: web.Request, _: Visitor
    ) -> tuple[str, Mapping[str, object]]:
        """Return what queued runs wait for: all, or those of a sweep."""
        queue = queue_now(farm, self._kept, request.match_info.get("sweep_id"))
        return "queue_live.html", {**WORDS, "queue": queue}

    def sweeps(self, farm: Reading, request: web.Request, _: Visitor) -> View:
        """Return a page of sweeps."""
        usual = {"limit": str(SWEEPS_SHOWN), "sort": "-submitted"}
        asked = parse(SweepQuery, {**usual, **_given(request)}.items())
        page = sweep_page(farm, asked)
        context = {
            "page": page,
            "asked": asked,
            "older": _older(request, page.next),
        }
        return View("Sweeps", "sweeps.html", {**WORDS, **context}, place="/sweeps")

    def sweep(self, farm: Reading, request: web.Request, visitor: Visitor) -> View:
        """Return one sweep while it runs."""
        parse(NoQuery, {k: v for k, v in request.query.items() if k != "cancelled"}.items())
        _, context = self.sweep_part(farm, request, visitor)
        sweep_id = request.match_info["sweep_id"]
        cancelled = request.query.get("cancelled", "")
        more = {
            "live": f"/live/sweeps/{quote(sweep_id, safe='')}",
            "cancelled": int(cancelled) if cancelled.isdecimal() and len(cancelled) < 9 else None,
        }
        return View(f"Sweep {sweep_id}", "sweep.html", {**context, **more}, place="/sweeps")

    def sweep_part(
        self, farm: Reading, request: web.Request, visitor: Visitor
    ) -> tuple[str, Mapping[str, object]]:
        """Return one sweep as it is now, as a part that is asked for again."""
        now = sweep_now(farm, self._kept, request.match_info["sweep_id"])
        context = {"now": now, "may_cancel": _may_cancel(visitor, now.record)}
        return "sweep_live.html", {**WORDS, **context}

    def results(self, farm: Reading, request: web.Request, _: Visitor) -> View:
        """Return a page of results."""
        usual = {"limit": str(RESULTS_SHOWN), "sort": "-stored"}
        asked = parse(ResultQuery, {**usual, **_given(request)}.items())
        found = reads.results(farm, asked, {})
        context = {
            "found": found,
            "asked": asked,
            "validities": [validity.value for validity in Validity],
            "older": _older(request, found.next),
        }
        return View("Results", "results.html", {**WORDS, **context}, place="/results")

    def run(self, farm: Reading, request: web.Request, _: Visitor) -> View:
        """Return a run with its outcomes."""
        parse(NoQuery, request.query.items())
        view = run_view(farm, self._kept, request.match_info["run_id"])
        contents = [("run", "Run"), *((one.anchor, _title(one.anchor)) for one in view.outcomes)]
        contents += [("files", "Files")] if view.files.lines else []
        return View(
            *(f"Run {view.run_id}", "run.html", {**WORDS, "view": view}),
            contents=contents,
            charts=view.charts,
            place="/results",
        )

    def profile(self, farm: Reading, request: web.Request, _: Visitor) -> View:
        """Return the profile of a run."""
        asked, run_id = parse(AttemptQuery, _given(request).items()), request.match_info["run_id"]
        page = run_profile_page(farm, self._profiles, run_id, asked.attempt)
        return _of_report(page, "run_profile.html", {"run_id": run_id}, "/results")

    def compare(self, farm: Reading, request: web.Request, _: Visitor) -> View:
        """Return any devices, stacks, workloads and scenarios set against each other."""
        chosen = chosen_of(request.query.items())
        page, notes = comparison(farm, self._kept, self._reports, chosen)
        more = {"choices": choices(farm, chosen), "notes": notes}
        return _of_report(page, "compare.html", more, "/compare")

    def report(self, farm: Reading, request: web.Request, _: Visitor) -> View:
        """Return the report of a sweep."""
        parse(NoQuery, request.query.items())
        sweep_id = request.match_info["sweep_id"]
        page, notes = sweep_report(farm, self._kept, self._reports, sweep_id)
        more = {"choices": (), "notes": notes, "sweep_id": sweep_id}
        return _of_report(page, "sweep_report.html", more, "/sweeps")

    def device(self, farm: Reading, request: web.Request, _: Visitor) -> View:
        """Return a device with its history."""
        asked = parse(HistoryQuery, _given(request).items())
        view = device_view(farm, self._kept, request.match_info["device_id"], asked)
        older = "" if view.before is None else f"?{urlencode({'before': repr(view.before)})}"
        title = f"Device {view.now.name if view.now else view.device_id}"
        context = {**WORDS, "view": view, "older": older, "asked": asked}
        return View(title, "device.html", context, place="/")

    def search(self, farm: Reading, request: web.Request, _: Visitor) -> View:
        """Return what has a text in its name."""
        asked = parse(SearchQuery, _given(request).items())
        context = {**WORDS, "asked": asked, "hits": search(farm, asked), "most": MOST}
        return View("Search", "search.html", context)


def _of_report(page: Page, template: str, more: Context, place: str) -> View:
    """Return a report in the layout of the server."""
    return View(
        title=page.title,
        template=template,
        context={**WORDS, **page.context, **more},
        description=page.description,
        contents=page.contents,
        charts=page.charts,
        scripts=page.scripts,
        place=place,
    )


def _title(anchor: str) -> str:
    return anchor.replace("-", " ").capitalize()


def _given(request: web.Request) -> dict[str, str]:
    """Return the parameters of a request without the fields of a form that were left empty."""
    return {name: value for name, value in request.query.items() if value}


def _older(request: web.Request, cursor: str | None) -> str:
    """Return the address of the page that follows; empty if none does."""
    if cursor is None:
        return ""
    return f"{request.path}?{urlencode({**_given(request), 'cursor': cursor})}"


def _may_cancel(visitor: Visitor, record: SweepRecord) -> bool:
    """Return whether a button is worth showing; the controller decides."""
    if visitor.scope is Scope.ADMINISTRATOR:
        return True
    return visitor.scope.allows(Scope.SUBMITTER) and record.user == visitor.name
