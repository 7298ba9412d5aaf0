"""`python -m controller.store.second_reader_main STORE`: the side of the second process.

Standard input is a socket, whose end is that of the first process; then this one ends, too.
"""

from __future__ import annotations

import marshal
import os
import signal
import sqlite3
import sys
from contextlib import closing
from multiprocessing.connection import Connection
from pathlib import Path

from controller.contracts.shown_names import ShownNames
from controller.store.driver import connect
from controller.store.plain_results import FoundByNumber, plain_results


def main() -> None:
    """Answer until nobody asks any more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # ^C is the first process's to heed
    store = connect(Path(sys.argv[1]), "ro")
    with Connection(os.dup(sys.stdin.fileno())) as line, closing(store):
        try:
            while True:
                numbers, *names = marshal.loads(line.recv_bytes())
                found = _found(store, numbers, ShownNames(*names))
                line.send_bytes(marshal.dumps([(n, tuple(flat)) for n, flat in found.items()]))
        except (EOFError, ConnectionError):
            return


def _found(store: sqlite3.Connection, numbers: list[int], shown: ShownNames) -> FoundByNumber:
    try:
        store.execute("BEGIN")
        try:
            return plain_results(store, numbers, shown)
        finally:
            store.execute("ROLLBACK")
    except sqlite3.Error:  # the first process meets it, too, and tells of it
        return {}


if __name__ == "__main__":
    main()
