"""Pages that a browser has opened, with all that they said and asked for."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.sync_api import Dialog, Page

MEASURES = Path(__file__).with_name("page_measures.js").read_text()
REFUSED = """new Promise(resolve => {
  const heard = event => resolve(event.effectiveDirective);
  addEventListener("securitypolicyviolation", heard, {once: true});
  const script = Object.assign(document.createElement("script"), {text: "window.stranger = 1"});
  %s;
})"""
"""Resolves to the directive of the policy that refuses what %s does."""


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
