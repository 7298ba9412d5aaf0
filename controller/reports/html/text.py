"""Words from anywhere in pages."""

from __future__ import annotations

import html

from controller.platform.terminal import visible


def escape(text: str) -> str:
    """Return text for HTML: neither markup nor marks that turn the direction of what follows."""
    return html.escape(visible(text, lines=True))
