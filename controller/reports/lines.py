"""Records as JSON lines. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from controller.contracts.base import Contract


def lines_of(records: Sequence[Contract]) -> bytes:
    """Return records as JSON, one a line, UTF-8; nothing for none."""
    return b"".join(record.model_dump_json().encode() + b"\n" for record in records)
