"""Escaping of untrusted texts for pages."""

from __future__ import annotations

import html

from controller.platform.terminal import visible


def escape(text: str) -> str:
    """Return the text escaped for HTML, without marks that change text direction."""
    return html.escape(visible(text, lines=True))
