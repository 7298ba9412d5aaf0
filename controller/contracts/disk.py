"""How much room a farm needs on a disk."""

from __future__ import annotations

from typing import Final

LEAST_FREE_BYTES: Final = 64 << 20
"""Free bytes of a home's disk without which no farm starts there, and no run begins: logs, traces
and the files of one run need them."""
