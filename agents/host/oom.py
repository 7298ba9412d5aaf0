"""Running out of memory: which process the kernel kills first."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

OOM_SCORE_ADJ = 1000
"""The highest value (proc_pid_oom_score_adj(5))."""


def offer_to_oom_killer(pid: int) -> None:
    """Make the kernel kill this process first when memory runs out; its children inherit that.

    Otherwise it could kill a process of Ray, and the controller or the agent with it.
    """
    with suppress(FileNotFoundError, ProcessLookupError):  # it has already ended
        Path(f"/proc/{pid}/oom_score_adj").write_text(f"{OOM_SCORE_ADJ}")
