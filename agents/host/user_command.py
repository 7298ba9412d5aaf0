"""How a user's command has ended, in words for a message."""

from __future__ import annotations

import os
from typing import IO

LINE_BYTES = 200


def ending(status: int | None) -> str:
    """Return an exit status, or the signal that ended a process, in words."""
    return f"exit status {status}" if status is None or status >= 0 else f"signal {-status}"


def last_line(output: IO[bytes]) -> str:
    """Return the last non-empty line, with unprintable characters replaced; "" if there is none."""
    output.seek(max(0, output.seek(0, os.SEEK_END) - LINE_BYTES))
    lines = [" ".join(line.split()) for line in output.read().decode(errors="replace").splitlines()]
    line = next((line for line in reversed(lines) if line), "")
    return "".join(c if c.isprintable() else "?" for c in line)
