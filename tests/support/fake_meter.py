"""A virtual power meter, a real child process: prints what it is given, then does as it is told.

`python fake_meter.py LINES [END]`: LINES is a file; END is an exit status, or `wait`, the default.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path


def main() -> int:
    """Print the lines; return the exit status."""
    lines, *end = sys.argv[1:]
    sys.stdout.write(Path(lines).read_text())
    sys.stdout.flush()
    if not end or end[0] == "wait":
        signal.pause()
    sys.stderr.write("no longer connected\n")
    return int(end[0])


if __name__ == "__main__":
    sys.exit(main())
