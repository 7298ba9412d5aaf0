"""An interactive shell on a terminal of its own, to which keys are sent."""

from __future__ import annotations

import os
import select
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.waiting import PATIENCE_S

PROMPT = "ready> "
PASTED = "\x1b[?2004h"
"""What zsh asks a terminal for behind each prompt."""


@dataclass(slots=True)
class Terminal:
    """The tester's end of the terminal."""

    file: int
    shown: str = ""

    def type(self, keys: str) -> None:
        """Send keys when the shell waits for a line."""
        while not self.shown.removesuffix(PASTED).endswith(PROMPT):
            assert self._more(), f"no prompt after {self.shown!r}"
        self.shown = ""
        os.write(self.file, keys.encode())

    def until_end(self) -> None:
        """Wait for the shell's end."""
        while self._more():
            pass

    def _more(self) -> bool:
        """Read what is shown; return whether the shell lives."""
        readable, _, _ = select.select([self.file], [], [], PATIENCE_S)
        assert readable, f"nothing after {self.shown!r}"
        try:
            self.shown += os.read(self.file, 65536).decode(errors="replace")
        except OSError:  # EIO: nobody has the other end open
            return False
        return True


@contextmanager
def interactive(
    shell: Sequence[str], folder: Path, environ: Mapping[str, str]
) -> Iterator[Terminal]:
    """Give a shell that waits in a folder for lines; it is ended on leaving."""
    ours, its = os.openpty()
    settings = {**os.environ, "PS1": PROMPT, "TERM": "dumb", **environ}
    running = subprocess.Popen(
        shell, cwd=folder, env=settings, stdin=its, stdout=its, stderr=its, start_new_session=True
    )
    os.close(its)
    try:
        yield Terminal(ours)
    finally:
        running.kill()
        running.wait()
        os.close(ours)
