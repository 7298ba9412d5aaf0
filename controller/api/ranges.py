"""Which part of a content a request asks for (RFC 9110, 14). Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from controller.api.problems import RangeBeyond
from controller.contracts.errors import StoreDamaged

_RANGE: Final = re.compile(r"bytes=([0-9]{0,18})-([0-9]{0,18})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Span:
    """Bytes of a content, from the first until before the last."""

    first: int
    end: int

    @property
    def size(self) -> int:
        """How many bytes it has."""
        return self.end - self.first


def span_of(asked: str | None, size: int) -> Span | None:
    """Return the range that a header asks for; None for the whole content.

    Several ranges, another unit and a header that is none are answered with the whole, which the
    RFC allows. Raises RangeBeyond for a range that has no byte of the content.
    """
    found = _RANGE.fullmatch((asked or "").strip())
    if found is None or found.groups() == ("", ""):
        return None
    first, last = found.groups()
    if first and last and int(last) < int(first):
        return None
    start = int(first) if first else max(0, size - int(last))
    end = min(size, int(last) + 1) if first and last else size
    if start >= end:
        seen = f"the content has {size} bytes"
        raise RangeBeyond("answer with this range", seen, "Ask for one that begins before its end.")
    return Span(start, end)


def cut(pieces: Iterator[bytes], size: int) -> Iterator[bytes]:
    """Yield the first bytes of some pieces; raises StoreDamaged if they have fewer.

    Whoever was promised more would wait for it.
    """
    left = size
    for piece in pieces:
        yield piece[:left]
        left -= len(piece)
        if left <= 0:
            return
    if left > 0:
        raise StoreDamaged("of artefacts", f"a content lacks its last {left} bytes")
