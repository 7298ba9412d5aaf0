"""Escaping of untrusted texts for pages."""

from __future__ import annotations

import html

from controller.platform.terminal import visible


def escape(text: str) -> str:
    """Return the text escaped for HTML, without marks that change text direction."""
    return html.escape(visible(text, lines=True))


def shortened(text: str, most: int) -> str:
    """Return a text of at most so many characters; its end is `…` if it was longer."""
    return text if len(text) <= most else f"{text[: most - 1]}…"
