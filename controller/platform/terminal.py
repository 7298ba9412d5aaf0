"""Printing without control characters: texts of phones, workers and users cannot steer a terminal.

Control characters (C0, DEL, C1; invisible marks of direction and width) are printed as JSON writes
them: ESC is \\u001b.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TextIO

LONGEST = 80
"""Characters of a user's input that a message repeats."""

_INVISIBLE = (
    r"\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    r"\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f"
)
_STEERING = re.compile(f"[{_INVISIBLE}]")
_STEERING_LINES = re.compile(f"(?!\n)[{_INVISIBLE}]")


def visible(text: str, *, lines: bool = False) -> str:
    """Return a text with visible control characters; JSON stays the same JSON.

    lines: whether line breaks are kept.
    """
    return (_STEERING_LINES if lines else _STEERING).sub(_seen, text)


def _seen(found: re.Match[str]) -> str:
    return json.dumps(found[0])[1:-1]


def say(text: object = "", *, err: bool = False, lines: bool = False, end: str = "\n") -> None:
    """Print a line, to standard error if `err`; lines: see `visible`."""
    stream: TextIO = sys.stderr if err else sys.stdout
    stream.write(visible(str(text), lines=lines) + end)
    stream.flush()


def open_missing_streams() -> None:
    """Give this process /dev/null for each standard stream that it was started without.

    What it starts has them, too. Otherwise the next file that is opened would take such a stream's
    number, and what is printed would be written to it.
    """
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(number, True)
    os.close(number)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            mode = "w" if number else "r"
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", closefd=False))


def output_is_lost() -> bool:
    """Return whether standard output takes nothing, as on a full disk; then it is discarded.

    Call it after an error only, for it tries that with an empty line.
    """
    try:
        sys.stdout.write("\n")
        sys.stdout.flush()
    except OSError:
        # Python would try once more at its end, and print a traceback.
        with Path(os.devnull).open("wb") as nowhere:
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
        return True
    return False


@contextmanager
def errors_appended_to(log: Path) -> Iterator[None]:
    """Append standard error to a log in this context, also what C++ of this process writes."""
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with log.open("ab") as file:
            os.dup2(file.fileno(), 2)
        yield
    finally:
        sys.stderr.flush()
        os.dup2(kept, 2)
        os.close(kept)


class VisibleFormatter(logging.Formatter):
    """A log formatter with visible control characters."""

    def format(self, record: logging.LogRecord) -> str:
        """See logging.Formatter."""
        return visible(super().format(record), lines=True)


def log_visibly() -> None:
    """Log to standard error from INFO on, with times; of httpx, from WARNING on."""
    handler = logging.StreamHandler()
    handler.setFormatter(VisibleFormatter("%(asctime)s %(levelname)s %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    logging.getLogger("httpx").setLevel(logging.WARNING)  # at INFO, it logs each request


def make_visible() -> None:
    """Print this process's last-resort logs and uncaught exceptions as `say` does."""
    if logging.lastResort:
        logging.lastResort.setFormatter(VisibleFormatter())
    sys.excepthook = _say_exception


def _say_exception(
    kind: type[BaseException], error: BaseException, place: TracebackType | None
) -> None:
    said = "".join(traceback.format_exception(kind, error, place))
    say(said, err=True, lines=True, end="")
