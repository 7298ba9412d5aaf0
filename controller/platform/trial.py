"""Trying whether a program that is installed works."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence

from controller.platform.inherited import inherited

TRIAL_S = 30.0
"""A program that works has ended long before, also on a busy host."""


def fault_of(command: Sequence[str], stdin: str = "") -> str:
    """Run a command; return why it failed, with its last line, "" if it didn't."""
    try:
        done = subprocess.run(
            command,
            env=inherited(os.environ),
            input=stdin,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=TRIAL_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"it has not ended after {TRIAL_S:.0f} s"
    except OSError as error:
        return error.strerror or str(error)
    if done.returncode == 0:
        return ""
    last = (done.stderr.strip().splitlines() or ["it printed no error"])[-1]
    return f"it ended with status {done.returncode}: {last}"
