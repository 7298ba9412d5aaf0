"""Reading of LoadGen's files within bounds, and of the values in them. Nothing is trusted."""

from __future__ import annotations

import codecs
import math
import re
import reprlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from controller.loadgen.logs import LogUnreadable

MIB: Final = 2**20
MOST_BYTES: Final = 16 * MIB
"""Of a detail log or a summary; of 20,000 official ones, the largest has a few MiB."""
MOST_LINES: Final = 500_000
"""Of a detail log or a summary: 16 MiB of LoadGen's shortest entries have fewer."""
MOST_EMPTY: Final = 10_000
"""Lines with next to nothing of a larger file, in which LoadGen writes a handful."""
_NOTHING: Final = 3
"""Characters that a line with anything has at least."""
LARGEST: Final = 2**64
"""Beyond every count and time of LoadGen, whose integers have 64 bits."""
SHOWN: Final = 80
"""Characters of a file's text that a message repeats."""
_NUMBER: Final = re.compile(r"[+-]?\d+(\.\d+)?([eE][+-]?\d{1,3})?", re.ASCII)
_DIGITS: Final = 40

Value = bool | int | float | str
"""What a log says of one thing."""


def read_text(path: Path, most_bytes: int = MOST_BYTES) -> str:
    """Return a file's text; raises LogUnreadable, also for one that is too large or no file."""
    try:
        if not path.is_file():
            raise LogUnreadable(f"{path.name}: no such file" if not path.exists() else _odd(path))
        with path.open("rb") as file:
            data = file.read(most_bytes + 1)
    except OSError as error:
        raise LogUnreadable(f"{path.name}: {error.strerror or error}") from error
    if len(data) > most_bytes:
        raise LogUnreadable(f"{path.name}: more than {most_bytes // MIB} MiB")
    if data.count(b"\n") > MOST_LINES:
        raise LogUnreadable(f"{path.name}: more than {MOST_LINES} lines")
    if data.startswith(codecs.BOM_UTF8):
        raise LogUnreadable(f"{path.name}: it begins with a byte-order mark, as no log of LoadGen")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise LogUnreadable(f"{path.name}: byte {error.start} is not UTF-8 text") from error


def read_lines(path: Path, most_bytes: int, longest: int) -> Iterator[bytes]:
    """Yield a file's lines without holding it; raises LogUnreadable beyond these bounds."""
    try:
        if not path.is_file():
            raise LogUnreadable(_odd(path))
        with path.open("rb") as file:
            read = empty = 0
            while line := file.readline(longest + 1):
                read += len(line)
                if len(line) > longest:
                    raise LogUnreadable(f"{path.name}: a line of more than {longest} bytes")
                if read > most_bytes:
                    raise LogUnreadable(f"{path.name}: more than {most_bytes // MIB} MiB")
                empty += len(line.strip()) < _NOTHING
                if empty > MOST_EMPTY:
                    raise LogUnreadable(f"{path.name}: more than {MOST_EMPTY} empty lines")
                yield line
    except OSError as error:
        raise LogUnreadable(f"{path.name}: {error.strerror or error}") from error


def has_crlf(text: str, name: str) -> bool:
    """Return whether lines end as on Windows; raises LogUnreadable for other breaks of lines."""
    if len(text.splitlines()) != text.count("\n"):
        raise LogUnreadable(f"{name}: a line break that LoadGen does not write")
    return "\r\n" in text


def _odd(path: Path) -> str:
    return f"{path.name}: not a plain file"


def typed(text: str) -> Value:
    """Return a printed value: a bool, a number or a text."""
    if text in ("true", "false"):
        return text == "true"
    if len(text) > _DIGITS or not _NUMBER.fullmatch(text):
        return text
    try:
        return int(text)
    except ValueError:
        return float(text)


def brief(text: object, longest: int = SHOWN) -> str:
    """Return a value on one line, shortened."""
    shortened = str(text)[: 4 * longest] if isinstance(text, str) else reprlib.repr(text)
    line = " ".join(shortened.split())
    return line if len(line) <= longest else f"{line[:longest]}…"


def number(value: object) -> float | None:
    """Return a finite number within LoadGen's range, or None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if abs(value) >= LARGEST or (isinstance(value, float) and not math.isfinite(value)):
        return None
    return value
