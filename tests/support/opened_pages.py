"""Pages that a browser has opened, with all that they said and asked for."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Dialog, Page

DESKTOP = 1280
INTERACTIVE_S = 2.0
"""Promised of the largest pages."""
MEASURES = Path(__file__).with_name("page_measures.js").read_text()
REFUSED = """new Promise(resolve => {
  const heard = event => resolve(event.effectiveDirective);
  addEventListener("securitypolicyviolation", heard, {once: true});
  const script = Object.assign(document.createElement("script"), {text: "window.stranger = 1"});
  %s;
})"""
"""Resolves to the directive of the policy that refuses what %s does."""
IDLE = """new Promise(resolve => {
  const look = () => document.documentElement.dataset.charts === "drawn"
    ? requestIdleCallback(resolve) : requestAnimationFrame(look);
  look();
}).then(() => true)"""
"""Resolves to true when all charts that are in sight or near are drawn, and nothing else runs."""


@dataclass
class Opened:
    """A page with all that it said and asked for."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def measure(self, what: str) -> Any:  # noqa: ANN401 - whatever the function returns
        return self.page.evaluate(f"(() => {{ {MEASURES}; return {what}; }})()")


def listening(page: Page) -> Opened:
    """Keep what a page says and asks for from now on."""
    opened = Opened(page)

    def dismiss(dialog: Dialog) -> None:
        opened.complaints.append(dialog.message)
        dialog.dismiss()

    page.on("dialog", dismiss)
    page.on("console", lambda message: opened.complaints.append(message.text))
    page.on("pageerror", lambda error: opened.complaints.append(str(error)))
    page.on("request", lambda request: opened.requests.append(request.url))
    return opened


def core_s_until_idle(browser: Browser, path: Path) -> float:
    """Return the CPU seconds of a page's main thread, from navigation until it is idle with all
    drawn that is in sight or near; nobody waits for the rest.

    Nothing is waited for, so on a machine with nothing else to do it is the time people wait.
    """
    with browser.new_page(viewport={"width": DESKTOP, "height": 900}) as page:
        session = page.context.new_cdp_session(page)
        session.send("Performance.enable", {"timeDomain": "threadTicks"})
        page.goto(path.as_uri(), wait_until="commit")
        assert page.evaluate(IDLE)
        metrics = session.send("Performance.getMetrics")["metrics"]
    (seconds,) = [float(m["value"]) for m in metrics if m["name"] == "ThreadTime"]
    return seconds
