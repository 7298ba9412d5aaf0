"""Shell commands for trees on a phone, and the parsing of their output. Pure.

Requires the phone's own tar, find and sha256sum (toybox, Android 8 and later; or busybox).
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import PurePosixPath

from agents.remotes.remote import RUNS, malformed
from agents.remotes.tree import DIRECTORY, Listing, file_entry, link_entry

SPARE_BYTES = 16 * 2**20
"""Storage to leave free on a phone."""
_FILE_BYTES = 4096
"""A file uses at least one block."""
_NEXT = "--"
_NUMBER = re.compile(r"\d{1,15}", re.ASCII)
_LISTED_TIMES = 4
_LISTED_SPARE = 64 << 10
_ABSENT = 3
_SHARED = 4
_LIST = f"""
cd "$1" 2>/dev/null || exit {_ABSENT}
find . -type f -exec sha256sum {{}} + || exit 1
echo {_NEXT}
find . -type f -perm -100 || exit 1
echo {_NEXT}
find . -type d || exit 1
echo {_NEXT}
find . -type l -exec sh -c 'for link; do echo "$link"; readlink "$link"; done' sh {{}} +
"""
# The change time (%z) can't be set by anyone; a folder's shows new names in it.
_STAMPS = f"""
cd "$1" 2>/dev/null || exit {_ABSENT}
find . -mindepth 1 -exec stat -c '%n %i %s %f %z' {{}} +
"""
_UNPACK = """
rm -rf "$2" && mkdir -p "$2" && tar -xf "$1" -C "$2"
code=$?
rm -f "$1"
exit $code
"""
_INSTALL = """
rm -rf "$2" && mv "$1" "$2"
"""
_PREPARE = """
mkdir -p "$1" && cd "$1" && rm -rf incoming-*
"""
# Not every phone has dd; busybox's head does not report a full storage.
_SWEEP = f"""
mkdir -p "$1" && cd "$1" || exit
[ -n "$(grep -l -e "$2" /proc/[0-9]*/environ 2>/dev/null)" ] || rm -rf {RUNS} incoming-* || exit
head -c 1048576 /dev/zero | cat >incoming-probe
code=$?
rm -f incoming-probe
exit $code
"""
# A run is recognised by its files, since another host may run short commands at any time.
_FIND_RUNS = f"""
for environ in $(grep -l -e "$2" /proc/[0-9]*/environ 2>/dev/null)
do
  grep -q -F -e "$1/{RUNS}/" "${{environ%environ}}cmdline" 2>/dev/null && exit {_SHARED}
done
exit 0
"""
# Renamed first, so that a run that begins now pushes what it needs again.
_REMOVE = """
[ -e "$1" ] || { echo 0; exit; }
du -sk "$1" && mv "$1" "$1-removed-$$" || exit 1
rm -rf "$1"-removed-*
"""
_UNUSABLE = """
cd "$1" || exit 1
shift
for program; do [ -x "$program" ] || echo "$program"; done
"""


def prepare(root: PurePosixPath) -> tuple[str, ...]:
    """Return the command that creates the folder of trees and removes incomplete pushes."""
    return _script(_PREPARE, root)


def sweep(root: PurePosixPath, others: str) -> tuple[str, ...]:
    """Return the command that removes what runs left, and checks that the phone takes files.

    It removes nothing while there are programs whose environment matches `others`.
    """
    return (*_script(_SWEEP, root), others)


def find_runs(root: PurePosixPath, others: str) -> tuple[str, ...]:
    """Return the command that finds runs whose environment matches `others`."""
    return (*_script(_FIND_RUNS, root), others)


def is_shared(exit_code: int) -> bool:
    """Return whether the exit code of `find_runs` means that it found one."""
    return exit_code == _SHARED


def list_tree(folder: PurePosixPath) -> tuple[str, ...]:
    """Return the command with the output for `parse_listing`."""
    return _script(_LIST, folder)


def stamp_tree(folder: PurePosixPath) -> tuple[str, ...]:
    """Return a command whose output changes with anything below a folder; reads no content."""
    return _script(_STAMPS, folder)


def unpack(archive: PurePosixPath, folder: PurePosixPath) -> tuple[str, ...]:
    """Return the command that unpacks an archive into a new folder, and removes it."""
    return _script(_UNPACK, archive, folder)


def install(unpacked: PurePosixPath, folder: PurePosixPath) -> tuple[str, ...]:
    """Return the command that renames an unpacked tree to its final name."""
    return _script(_INSTALL, unpacked, folder)


def remove(root: PurePosixPath) -> tuple[str, ...]:
    """Return the command that removes the folder of trees; its output is for `parse_size`."""
    return _script(_REMOVE, root)


def unusable(folder: PurePosixPath, programs: Sequence[str]) -> tuple[str, ...]:
    """Return the command that prints the programs that the phone refuses to execute."""
    return (*_script(_UNUSABLE, folder), *programs)


def is_absent(exit_code: int) -> bool:
    """Return whether the exit code of `list_tree` means that the folder is missing."""
    return exit_code == _ABSENT


def parse_listing(serial: str, text: str) -> Listing:
    """Parse the output of `list_tree`; raises RemoteFault `protocol`."""
    sections: list[list[str]] = [[]]
    for line in text.split("\n")[:-1]:
        if line == _NEXT:
            sections.append([])
        else:
            sections[-1].append(line)
    if len(sections) != 4 or len(sections[3]) % 2:
        message = f"cannot read the listing of a folder: {text[:200]!r}"
        raise malformed(serial, message)
    sums, programs, folders, links = sections
    executable = set(programs)
    listing = {name[2:]: DIRECTORY for name in folders if name != "."}
    for line in sums:
        sha256, _, name = line.partition("  ")
        listing[name[2:]] = file_entry(sha256, executable=name in executable)
    for name, target in zip(links[::2], links[1::2], strict=True):
        listing[name[2:]] = link_entry(target)
    return listing


def most_listed_bytes(listing: Listing) -> int:
    """Return the largest output of `list_tree` to parse where this listing is expected.

    A larger one is of another tree.
    """
    # A name is printed at most twice, and no more beside it than its entry has.
    sizes = (2 * len(os.fsencode(name)) + len(os.fsencode(e)) for name, e in listing.items())
    return _LISTED_TIMES * sum(sizes) + _LISTED_SPARE


def needed_bytes(archive_bytes: int, entries: int, *, packed: bool = True) -> int:
    """Return the storage that a push takes: the files, and their archive if they come packed."""
    return (2 if packed else 1) * archive_bytes + entries * _FILE_BYTES + SPARE_BYTES


def parse_size(serial: str, text: str) -> int:
    """Parse the output of `du -sk` to bytes; raises RemoteFault `protocol`."""
    first = text.split(maxsplit=1)[:1]
    if not first or not _NUMBER.fullmatch(first[0]):
        message = f"cannot read the size of a folder: {text[:200]!r}"
        raise malformed(serial, message)
    return int(first[0]) << 10


def parse_free_bytes(serial: str, text: str) -> int:
    """Parse the output of `df FOLDER`: the table of toybox and coreutils, or Android 5's toolbox.

    Raises RemoteFault `protocol`.
    """
    lines = [line.split() for line in text.splitlines() if line.strip()]
    try:
        header, row = lines[0], lines[-1]
        column = header.index("Free" if "Free" in header else "Available")
        return _size(row[column])
    except (IndexError, ValueError, OverflowError) as error:
        message = f"cannot read the free storage: {text[:200]!r}"
        raise malformed(serial, message) from error


def _size(text: str) -> int:
    units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
    if text[-1] in units:
        return int(float(text[:-1]) * units[text[-1]])
    return int(text) << 10


def _script(script: str, *paths: PurePosixPath) -> tuple[str, ...]:
    return ("sh", "-c", script, "benchfarm", *map(str, paths))
