"""The runner's own latencies (latencies_ns.npy): a NumPy file of 64-bit integers.

It is read without NumPy, which would take a command a tenth of a second.
"""

from __future__ import annotations

import array
import re
import sys
from pathlib import Path
from typing import Final

from controller.loadgen.logs import LogUnreadable
from controller.loadgen.texts import MIB

FILE: Final = "latencies_ns.npy"
MOST_BYTES: Final = 512 * MIB
_MAGIC: Final = b"\x93NUMPY\x01\x00"
_HEADER: Final = re.compile(
    rb"\{'descr': '<i8', 'fortran_order': False, 'shape': \((\d{1,12}),\), \} *\n"
)


def read_latencies(path: Path) -> tuple[int, ...] | None:
    """Return the nanoseconds of each sample, in order; None if there is no such file.

    Raises LogUnreadable for a file of another kind.
    """
    if not path.is_file():
        return None
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise LogUnreadable(f"{path.name}: {error.strerror or error}") from error
    size = int.from_bytes(data[8:10], "little")
    header, body = data[10 : 10 + size], data[10 + size :]
    found = _HEADER.fullmatch(header)
    if not data.startswith(_MAGIC) or found is None or len(body) != 8 * int(found[1]):
        raise LogUnreadable(f"{path.name}: no file of 64-bit integers, or truncated")
    numbers = array.array("q")
    numbers.frombytes(body)
    if sys.byteorder == "big":
        numbers.byteswap()
    return tuple(numbers)
