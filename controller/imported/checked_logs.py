"""LoadGen's logs that came from elsewhere: read by themselves, checked as `results verify` does.

Pure but for copies of the logs, from which they are read.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from controller.loadgen import logs
from controller.loadgen.checks import Verdict
from controller.loadgen.run_logs import RunLogs, read_run
from controller.loadgen.verifying import verify

MOST_NAMED: Final = 3
"""Further figures that a line names."""
_FILES: Final = frozenset({logs.DETAIL, logs.SUMMARY, logs.TRACE, logs.ACCURACY})


def run_of(files: Mapping[str, bytes]) -> RunLogs:
    """Return the logs of one run; raises LogUnreadable, and OSError where no copy can be made.

    files: LoadGen's name of a file → its content. Copies are read, so that of a stranger's folder
    no other file is, nor a link in it.
    """
    with TemporaryDirectory(prefix="benchfarm-logs-") as name:
        folder = Path(name)
        for file in files.keys() & _FILES:
            (folder / file).write_bytes(files[file])
        return read_run(folder)


def doubt(files: Mapping[str, bytes]) -> str:
    """Return in one line what is wrong with the logs of one run; empty for nothing."""
    try:
        odd = contradiction(run_of(files))
    except (logs.LogUnreadable, ArithmeticError, LookupError, TypeError, ValueError) as error:
        return str(error)
    return f"it contradicts itself: {odd}" if odd else ""


def contradiction(run: RunLogs) -> str:
    """Return in one line which figure of a run the rest of its logs contradicts; empty for none.

    Raises LogUnreadable, ArithmeticError, LookupError, TypeError or ValueError for values that
    LoadGen never writes.
    """
    odd = [check for check in verify(run) if check.verdict is Verdict.DIFFERS]
    if not odd:
        return ""
    first, others = odd[0], list(dict.fromkeys(check.figure for check in odd[1:]))
    rest = f"; so do {', '.join(others[:MOST_NAMED])}" if others else ""
    return f"{first.figure} says {first.says}, but is {first.recomputed} by {first.by}{rest}"
