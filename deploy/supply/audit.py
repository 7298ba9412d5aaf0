"""Checks what is pinned against known vulnerabilities, offline: `make audit OSV=FOLDER`.

Exit status 1: a pinned version is affected. 2: not all could be checked, as the last lines say.
"""

from __future__ import annotations

import argparse
import io
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import IO

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from controller.contracts.documents import checked_json
from controller.contracts.unreadable import UNREADABLE, reason
from deploy.supply.osv import ECOSYSTEM, Finding, RangeUnreadable, Record, findings
from deploy.supply.pins import ROOT, LockUnreadable, Pin, pins_of

AFFECTED, INCOMPLETE = 1, 2
MOST_BYTES = 16 << 20
"""Of one record; the largest of PyPI's have less than one MB."""
MOST_TOLD = 10
"""So many unreadable records are named."""
HINT = "Give PyPI's all.zip of OSV's exports, or a folder it was unpacked into."
ZIP_DAMAGED = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError)
"""What reading a zip file can raise beside UNREADABLE."""

Opening = Callable[[], IO[bytes] | io.FileIO]


class DataSetUnreadable(Exception):
    """A data set that there is not, or that is of something else."""


def files_of(source: Path) -> Iterator[tuple[str, Opening]]:
    """Yield names of the JSON files of a folder or zip file, and how to open them.

    Raises:
        DataSetUnreadable: there is no such folder or zip file.

    """
    if source.is_dir():
        for path in sorted(source.rglob("*.json")):
            yield str(path.relative_to(source)), partial(io.FileIO, path)
        return
    try:
        archive = zipfile.ZipFile(source)
    except (*ZIP_DAMAGED, *UNREADABLE) as error:
        raise DataSetUnreadable(f"cannot read {source}: {_why(error)}. {HINT}") from error
    with archive:
        for name in sorted(name for name in archive.namelist() if name.endswith(".json")):
            yield name, partial(archive.open, name)


def read_records(source: Path) -> tuple[list[Record], list[str]]:
    """Return the records, and a line for each file that holds none.

    Raises:
        DataSetUnreadable: there is no such data set, or nothing of PyPI in it.

    """
    records, complaints = [], []
    for name, opening in files_of(source):
        try:
            records.append(_record(opening))
        except (*ZIP_DAMAGED, *UNREADABLE) as error:
            complaints.append(f"cannot read {name!a}: {_why(error)}")
    parts = (part for record in records for part in record.affected)
    if not any(part.package and part.package.pypi_name for part in parts):
        told = "".join(f"; {line}" for line in complaints[:1])
        raise DataSetUnreadable(f"{source} holds no record of {ECOSYSTEM}{told}. {HINT}")
    return records, complaints


def _record(opening: Opening) -> Record:
    with opening() as file:
        content = file.read(MOST_BYTES + 1)
    return Record.model_validate_json(checked_json(content, MOST_BYTES))


def _why(error: Exception) -> str:
    return reason(error) if isinstance(error, UNREADABLE) else str(error) or type(error).__name__


def table_of(found: Sequence[Finding]) -> Table:
    """Return what is affected as a table."""
    table = Table("package", "version", "pinned in", "vulnerability", "fixed in", "what it is")
    for one in found:
        row = (one.pin.name, str(one.pin.version), "\n".join(one.pin.places), "\n".join(one.ids))
        fixed = str(one.fixed) if one.fixed else "–"
        table.add_row(*map(_shown, row), fixed, _shown(one.summary))
    return table


def _shown(text: str) -> str:
    """Return a text of others as the terminal may have it: without codes and markup."""
    seen = (c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in text)
    return escape("".join(seen))


def audit(pins: Sequence[Pin], source: Path, console: Console) -> int:
    """Say what is affected, and return the exit status.

    Raises:
        DataSetUnreadable: as of read_records.
        RangeUnreadable: as of findings.

    """
    records, complaints = read_records(source)
    found = findings(pins, records)
    if found:
        console.print(table_of(found))
    newest = max((record.modified[:10] for record in records), default="")
    console.print(
        _shown(
            f"{len(pins)} pinned packages, {len({one.pin for one in found})} of them affected, "
            f"by {len(records)} records, the newest of {newest or 'an unknown day'}"
        )
    )
    for line in complaints[:MOST_TOLD]:
        console.print(_shown(line))
    if len(complaints) > MOST_TOLD:
        console.print(f"{len(complaints) - MOST_TOLD} more files can't be read")
    if found:
        return AFFECTED
    return INCOMPLETE if complaints else 0


def main(arguments: Sequence[str] | None = None, root: Path = ROOT) -> int:
    """Audit what a repository pins; see the module."""
    parser = argparse.ArgumentParser(prog="make audit OSV=", description=__doc__)
    parser.add_argument("source", type=Path, help=f"Records in the OSV format. {HINT}")
    source = parser.parse_args(arguments).source
    try:
        return audit(pins_of(root), source, Console(highlight=False, soft_wrap=True))
    except (DataSetUnreadable, LockUnreadable, RangeUnreadable) as error:
        print(f"audit: {_shown(str(error))}", file=sys.stderr)  # noqa: T201
        return INCOMPLETE


if __name__ == "__main__":
    sys.exit(main())
