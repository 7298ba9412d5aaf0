"""Checking the requirements of a bundle on a remote before more than 2 MB are pushed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Final

from agents.inference.content import LIBC, Runtime
from agents.inference.requirements import Start, SystemFacts, Unmet, unmet
from agents.remotes.adb.device_tree import parse_free_bytes
from agents.remotes.adb.facts import MAX_SAID
from agents.remotes.adb.refusals import fault_of_refusal
from agents.remotes.remote import (
    NOT_STARTED,
    RUNS,
    Completed,
    FaultKind,
    Remote,
    RemoteFault,
    one_line,
    run_own,
)

ASK_S: Final = 20.0
_NEXT: Final = "--"
# Not every phone has getconf or uname; a file that can't be read leaves its line empty.
_ASK: Final = """
{
  echo "kernel: $(uname -r)"
  echo "version: $(cat /proc/version)"
  echo "machine: $(uname -m)"
  echo "page_bytes: $(getconf PAGESIZE)"
  echo "page_size: $(grep -m 1 KernelPageSize /proc/self/smaps)"
  echo "selinux: $(cat /proc/self/attr/current)"
  echo "seccomp: $(grep Seccomp: /proc/self/status)"
} 2>/dev/null
exit 0
"""
# Executed as a copy in the folder of runs, since the pushed tree must stay unchanged.
_START: Final = f"""
cd "$1" || exit 1
df "$1"
echo {_NEXT}
[ ! -d "$2" ] || echo "pushed: yes"
folder=${{1%/*}}/{RUNS}
mkdir -p "$folder" && cat "$3" >"$folder/start" && chmod 700 "$folder/start" || exit 1
unset LD_PRELOAD LD_LIBRARY_PATH LD_AUDIT
said=$("$folder/start" --inhibit-cache --library-path . ./{LIBC} 2>&1)
code=$?
rm -f "$folder/start"
echo "status: $code"
echo "said: ${{said##*
}}"
echo "at: $(cd "$folder" && pwd -P)"
echo {_NEXT}
[ "$code" = 0 ] || cat /proc/mounts
exit 0
"""
_LINE: Final = re.compile(r"^(\w+): (.*)$", re.ASCII | re.MULTILINE)
_VERSION: Final = re.compile(r"(?:Linux version )?(\d{1,4})\.(\d{1,4})(?:\.(\d{1,4}))?", re.ASCII)
_KILOBYTES: Final = re.compile(r"KernelPageSize:\s+(\d{1,9}) kB", re.ASCII)
_SECCOMP: Final = re.compile(r"Seccomp:\s+(\d{1,3})", re.ASCII)
_NUMBER: Final = re.compile(r"\d{1,9}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Look:
    """A remote's facts, and the requirements that it does not meet."""

    told: SystemFacts
    unmet: Sequence[Unmet]
    pushed_bytes: int = 0


async def require(remote: Remote, runtime: Runtime, place: str) -> Look:
    """Return the facts of a remote that can start a bundle; called before the bundle is pushed.

    place: the name to use in faults. Raises RemoteFault naming each requirement that is not met.
    """
    seen = await look(remote, runtime, place)
    if seen.unmet:
        raise refusal(place, runtime.name, seen.unmet)
    return seen


def refusal(place: str, bundle: str, lacking: Sequence[Unmet]) -> RemoteFault:
    """Return one fault for all unmet requirements; its kind is that of the first."""
    why = "; ".join(one.seen for one in lacking)
    remedies = " ".join(dict.fromkeys(one.remedy for one in lacking))
    message = f"cannot run bundle {bundle} here: {why}. {remedies}"
    return RemoteFault(place, lacking[0].kind, message)


async def look(remote: Remote, runtime: Runtime, place: str) -> Look:
    """Query a remote's facts; if they fit, start the bundle's loader there.

    Raises RemoteFault if the remote can't be reached, or takes no files.
    """
    told = told_of_system(_text(await run_own(remote, ("sh", "-c", _ASK), ASK_S)))
    if lacking := unmet(runtime.requirements, told):
        return Look(told, lacking)
    pushed = await remote.push_tree(runtime.starter)
    folder = pushed.path.parent / runtime.tree.digest
    arguments = ("benchfarm", str(pushed.path), str(folder), runtime.loader)
    done = await run_own(remote, ("sh", "-c", _START, *arguments), ASK_S)
    if done.exit_code:
        raise _unable(place, done)
    told = with_start(told, _text(done))
    return Look(told, unmet(runtime.requirements, told), pushed.pushed_bytes)


def _unable(place: str, done: Completed) -> RemoteFault:
    words = _text(done) if done.merged else done.stderr[:MAX_SAID].decode(errors="replace")
    what = f"cannot start the bundle's loader: {one_line(words) or f'exit status {done.exit_code}'}"
    if done.exit_code in NOT_STARTED:
        return RemoteFault(place, FaultKind.UNSUPPORTED, what)
    return fault_of_refusal(place, what)


def _text(done: Completed) -> str:
    return done.stdout[:MAX_SAID].decode(errors="replace").replace("\r\n", "\n")


def told_of_system(text: str) -> SystemFacts:
    """Parse the answer to the first query; a fact that can't be read is None."""
    said = dict(_LINE.findall(text.replace("\0", "")))
    return SystemFacts(
        kernel=_version(said.get("kernel", "")) or _version(said.get("version", "")),
        machine=one_line(said.get("machine", "")) or None,
        page_bytes=_page_bytes(said),
        selinux=one_line(said.get("selinux", "")) or None,
        seccomp=_number(_SECCOMP, said.get("seccomp", "")),
    )


def with_start(told: SystemFacts, text: str) -> SystemFacts:
    """Add the answer to the second query; a fact that can't be read is None."""
    table, _, rest = text.partition(f"{_NEXT}\n")
    lines, _, mounts = rest.partition(f"{_NEXT}\n")
    said = dict(_LINE.findall(lines))
    code = _number(_NUMBER, said.get("status", ""))
    start = None if code is None else Start(code, one_line(said.get("said", "")))
    at = PurePosixPath(said.get("at", "/"))
    return replace(
        told,
        free_bytes=_free_bytes(table),
        pushed=said.get("pushed") == "yes",
        noexec=_mounted_noexec(mounts, at) if mounts else None,
        start=start,
    )


def _version(text: str) -> tuple[int, int, int] | None:
    found = _VERSION.match(text)
    return (int(found[1]), int(found[2]), int(found[3] or 0)) if found else None


def _page_bytes(said: Mapping[str, str]) -> int | None:
    bytes_ = _number(_NUMBER, said.get("page_bytes", ""))
    kilobytes = _number(_KILOBYTES, said.get("page_size", ""))
    return bytes_ or (kilobytes << 10 if kilobytes else None)


def _number(pattern: re.Pattern[str], text: str) -> int | None:
    found = pattern.match(text)
    return int(found[found.lastindex or 0]) if found else None


def _free_bytes(table: str) -> int | None:
    try:
        return parse_free_bytes("", table)
    except RemoteFault:
        return None  # an unknown format of df counts as not reported


def _mounted_noexec(mounts: str, folder: PurePosixPath) -> bool | None:
    """Return whether, by /proc/mounts, the file system of a folder is mounted noexec."""
    best, options = -1, ""
    for fields in (line.split(" ") for line in mounts.splitlines()):
        if len(fields) < 4 or not folder.is_relative_to(fields[1]):
            continue
        if (depth := len(PurePosixPath(fields[1]).parts)) >= best:  # a later one covers others
            best, options = depth, fields[3]
    return None if best < 0 else "noexec" in options.split(",")
