"""How much this process and others used a server while it was measured, for the agent to judge."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Final

from agents.host.cpu_watch import CpuWatch

FILE: Final = "host_use.json"


@contextmanager
def host_watched(folder: Path, *, wanted: bool) -> Iterator[None]:
    """Write FILE, a CpuTimes of the block, into a folder; do nothing if it is not wanted."""
    if not wanted:
        yield
        return
    watch = CpuWatch()
    with watch.timing():
        yield
    (folder / FILE).write_text(json.dumps(asdict(watch.timed), allow_nan=False))
