"""Rich's console, printing as controller/platform/terminal.py does."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import (
    Console,
    ConsoleOptions,
    HighlighterType,
    JustifyMethod,
    OverflowMethod,
    RenderableType,
)
from rich.segment import Segment
from rich.style import Style
from rich.text import Text

from controller.platform.terminal import visible


class VisibleConsole(Console):
    """Shows the control characters of what it prints; its own colours and cursor work as ever."""

    def render_str(
        self,
        text: str,
        *,
        style: str | Style = "",
        justify: JustifyMethod | None = None,
        overflow: OverflowMethod | None = None,
        emoji: bool | None = None,
        markup: bool | None = None,
        highlight: bool | None = None,
        highlighter: HighlighterType | None = None,
    ) -> Text:
        """See Console.render_str, by which the width of a cell is found, too."""
        return super().render_str(
            visible(text, lines=True),
            style=style,
            justify=justify,
            overflow=overflow,
            emoji=emoji,
            markup=markup,
            highlight=highlight,
            highlighter=highlighter,
        )

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """See Console.render: whatever was no string before, such as a Text."""
        for segment in super().render(renderable, options):
            text, style, control = segment
            yield segment if control else Segment(visible(text, lines=True), style)
