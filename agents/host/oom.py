"""Memory that runs out: which process the kernel is to end for it, and whether it has ended one."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

OOM_SCORE_ADJ = 1000
"""The kernel's highest (proc_pid_oom_score_adj(5))."""


def offer_to_oom_killer(pid: int) -> None:
    """Let the kernel end this process first when memory runs out; its children are like it.

    Else it could be a process of Ray, with which the controller or the agent would go.
    """
    with suppress(FileNotFoundError, ProcessLookupError):  # it died at once
        Path(f"/proc/{pid}/oom_score_adj").write_text(f"{OOM_SCORE_ADJ}")


def oom_kills(vmstat: Path = Path("/proc/vmstat")) -> int:
    """Return how many processes of this host the kernel has ended for memory since it booted."""
    fields = dict(line.split() for line in vmstat.read_text().splitlines())
    return int(fields.get("oom_kill", "0"))
