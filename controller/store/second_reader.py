"""A second process that reads flat results while the first one reads others.

It is asked for results of some numbers, and answers with those that are sound and usual. What it
can't answer, for whatever reason, the first process reads itself, and tells of. Its side is
`second_reader_main.py`.
"""

from __future__ import annotations

import logging
import marshal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path

from controller.contracts.flat_result import FlatResult
from controller.contracts.shown_names import ShownNames
from controller.platform.garbage import no_collections
from controller.platform.programs import python_module
from controller.store.plain_results import FoundByNumber, Numbers

log = logging.getLogger(__name__)


class SecondReader:
    """The process, as the first one sees it."""

    def __init__(self, line: Connection) -> None:
        self._line = line
        self._ended = False

    def ask(self, numbers: Numbers, shown: ShownNames) -> bool:
        """Ask for the results of some numbers; return False if it has ended.

        The answer is to be taken before it is asked again.
        """
        if self._ended:
            return False
        request = [*numbers], dict(shown.of_devices), dict(shown.of_sweeps)
        try:
            self._line.send_bytes(marshal.dumps(request))
        except (OSError, ValueError) as error:  # ValueError: tags that are damaged
            self._end(error)
        return not self._ended

    def answer(self) -> FoundByNumber:
        """Return what it has found of what it was asked for; nothing if it has ended."""
        try:
            content = self._line.recv_bytes()
        except (OSError, EOFError) as error:
            self._end(error)
            return {}
        with no_collections():
            return {number: FlatResult._make(row) for number, row in marshal.loads(content)}

    def _end(self, error: Exception) -> None:
        self._ended = True
        log.warning("the second reader of an export has ended (%r); one goes on alone", error)


@contextmanager
def second_reader(store: Path) -> Iterator[SecondReader]:
    """Run the process in this context."""
    here, there = socket.socketpair()
    with Connection(here.detach()) as line, there:
        command = python_module("controller.store.second_reader_main", str(store))
        nothing = subprocess.DEVNULL
        with subprocess.Popen(command, stdin=there.fileno(), stdout=nothing) as process:
            there.close()
            try:
                yield SecondReader(line)
            finally:
                process.kill()  # it changes nothing, and may be reading for nobody
