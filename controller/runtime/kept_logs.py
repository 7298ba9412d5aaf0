"""LoadGen's logs that this host's agents keep: where one really is, and opening it.

An agent tells where the files of its attempt are. It may be another host's, or not be honest: only
a file in this host's own folder of that very attempt is read.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO, Final

from controller.contracts.records import StoredResult

LOGS: Final = (
    "mlperf_log_summary.txt",
    "mlperf_log_detail.txt",
    "mlperf_log_accuracy.json",
    "mlperf_log_trace.json",
    "latencies_ns.npy",
)
"""LoadGen's files, and the raw latency of each query."""
MODES: Final = ("performance", "accuracy")
"""Folders of an attempt that hold them."""


class LogAbsent(Exception):
    """Why a log is not there."""


def log_at_hand(agents: Path, result: StoredResult, source: Path) -> Path:
    """Return where a log really is; raises LogAbsent unless it is this host's, of this attempt.

    agents: the folder in which this host's agents keep artefacts, resolved.
    """
    own = ("runs", result.run_id, str(result.attempt))
    try:
        found = source.resolve(strict=True)
    except (OSError, RuntimeError, ValueError) as error:  # a loop, a null character
        raise LogAbsent("it is not kept on this host") from error
    is_own = found.is_relative_to(agents) and found.parts[-5:-2] == own
    if not (is_own and found.parts[-2] in MODES and found.name in LOGS):
        raise LogAbsent("it is not a log in this host's folder of the run")
    return found


def opened_log(path: Path) -> BinaryIO:
    """Open a regular file, and nothing that would block; raises LogAbsent."""
    try:
        file = os.fdopen(
            os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb"
        )
    except OSError as error:
        raise LogAbsent(f"it can't be read: {error.strerror}") from error
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise LogAbsent("it is not a regular file")
    return file
