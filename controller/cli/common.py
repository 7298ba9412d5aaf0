"""What the verbs share: options, reading the store, and the two forms of output."""

from __future__ import annotations

import io
import json
import math
import os
import re
import shlex
import shutil
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO, TypeVar

import typer
from pydantic import ValidationError
from rich.console import Console
from rich.table import Table

from controller.cli.visible_console import VisibleConsole
from controller.contracts.base import Contract
from controller.contracts.checks import Check, Health
from controller.contracts.device import LABEL, LABEL_CHARACTERS, NAME, shadowed
from controller.contracts.errors import UserError
from controller.contracts.wording import faults_of
from controller.platform.atomic import replacing
from controller.platform.terminal import LONGEST, say
from controller.runtime.home import Home
from controller.runtime.options import CONTEXT_VARIABLE, URL_VARIABLE

if TYPE_CHECKING:
    from controller.store.protocol import FarmReader, StoreReader

Model = TypeVar("Model", bound="Contract")

DAMAGES_SAID = 10
"""Of damages of the store, so many are named by a command that is about something else."""

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
PageToWrite = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="HTML page to write, too."),
]
Labels = Annotated[
    list[str] | None,
    typer.Option(
        "--label", metavar="KEY=VALUE", help="Label of this host, for selectors; repeatable."
    ),
]
MetricsAddress = Annotated[
    str | None,
    typer.Option(
        metavar="IP",
        help="Address to serve metrics on. [default: this host's in the cluster, else loopback]",
    ),
]

PhonePowerCycle = Annotated[
    str | None,
    typer.Option(
        metavar="COMMAND",
        help="Command that switches a phone's power off and on, used when nothing else brings the"
        " phone back; {serial} becomes its serial.",
    ),
]
MeterCommand = Annotated[
    str | None,
    typer.Option(
        "--meter",
        metavar="COMMAND",
        help="Power meter: command that prints lines of time and watts during each run; {device}"
        " becomes the device's id.",
    ),
]


def home() -> Home:
    """Return the home this call is about."""
    return Home.from_environment()


@contextmanager
def unwound() -> Iterator[None]:
    """Have SIGTERM and a terminal's end raise SystemExit, so that what was begun is ended."""
    former = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    caught = [number for number, was in former.items() if was is not signal.SIG_IGN]  # nohup
    for number in caught:
        signal.signal(number, _exit)
    try:
        yield
    finally:
        for number in caught:
            signal.signal(number, former[number])


def _exit(number: int, _: object) -> None:
    for other in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(other) is _exit:
            signal.signal(other, lambda *_: None)  # what was begun is ended first
    sys.exit(128 + number)


def farm_elsewhere() -> str | None:
    """Return the address of the farm this call is about if it is another host's."""
    return os.environ.get(URL_VARIABLE) or None


def context_elsewhere() -> str | None:
    """Return the name of the context of `benchfarm login` that this call is about, if one is."""
    return None if farm_elsewhere() else os.environ.get(CONTEXT_VARIABLE) or None


def require_this_host(tried: str) -> None:
    """Raise UserError if the farm that is meant is another host's."""
    if url := farm_elsewhere():
        remedy = "Run this on the head, or follow a sweep here with `benchfarm sweep watch SWEEP`."
        raise UserError(tried, f"{URL_VARIABLE} names the farm at {url}", remedy)
    if name := context_elsewhere():
        remedy = f"Run this on the head, or unset {CONTEXT_VARIABLE} here."
        raise UserError(tried, f"{CONTEXT_VARIABLE} names the farm {name!r}", remedy)


@contextmanager
def reading() -> Iterator[FarmReader]:
    """Give what is stored to read: this home's file, whether or not a farm is up, or the API of a
    context. Say which of it is damaged.

    Raises NotFound, FarmUnavailable, and UserError where the farm that is meant has no API.
    """
    if name := context_elsewhere():
        # Late: a client of HTTP, which reading on the head need not.
        from controller.cli.elsewhere import FarmElsewhere

        there = FarmElsewhere(name)
        with _damage_said() as lines, closing(there.store(lines.append)) as reader:
            yield reader
        return
    with reading_here() as store:
        yield store


@contextmanager
def reading_here() -> Iterator[StoreReader]:
    """Give the store of this home to read, as `reading` does; for what needs this host's files.

    Raises NotFound, and UserError where the farm that is meant is another host's.
    """
    # Late: SQLAlchemy takes long to load, and not all commands read a store.
    from controller.store.sqlite import SqliteStore

    require_this_host(f"read the store of {home().path}")
    with _damage_said() as lines:
        store = SqliteStore.open_reader(home().store, lines.append)
        try:
            yield store
        finally:
            store.close()


@contextmanager
def _damage_said() -> Iterator[list[str]]:
    """Give a list of damages, which are said in the end."""
    lines: list[str] = []
    try:
        yield lines
    finally:
        for line in lines[:DAMAGES_SAID]:
            say(f"benchfarm: {line}", err=True)
        if (more := len(lines) - DAMAGES_SAID) > 0:
            say(f"benchfarm: and {more} more; see: benchfarm store check", err=True)


def console(*, stderr: bool = False) -> Console:
    """Return a console on standard output or error; as wide as it takes where that is no terminal.

    What it prints comes from anywhere: it is no markup, and its control characters are shown.
    """
    plain = VisibleConsole(stderr=stderr, markup=False, emoji=False)
    if stderr or plain.is_terminal:
        return plain
    return VisibleConsole(width=200, markup=False, emoji=False)


def show_table(table: Table) -> None:
    """Print a table for people."""
    console().print(table)


def show_json(records: Sequence[Contract] | Contract) -> None:
    """Print contracts as JSON: an array, or one object."""
    if isinstance(records, Contract):
        say(records.model_dump_json(indent=2), lines=True)
        return
    said = [record.model_dump(mode="json") for record in records]
    say(json.dumps(said, indent=2), lines=True)


def show_checks(checks: Sequence[Check], *, json: bool) -> None:
    """Print what a doctor has looked at."""
    if json:
        return show_json(checks)
    table = Table("", "what", "seen", "what to do")
    for check in checks:
        table.add_row(check.health, check.what, check.seen, check.remedy)
    return show_table(table)


def exit_if_to_mend(checks: Sequence[Check]) -> None:
    """End with exit status 1 if anything is to be mended."""
    if any(check.health is Health.MEND for check in checks):
        raise typer.Exit(1)


def write_file(path: Path, text: str, *, replace: bool = True) -> None:
    """Write what a user asked for to a file, UTF-8; raises UserError.

    Unless `replace`, also if there is such a file.
    """
    write_stream(path, io.BytesIO(text.encode()), replace=replace)


def write_page(path: Path, page: str) -> None:
    """Write a page beside what is printed, and say so; raises UserError."""
    write_file(path, page)
    say(f"page written to {path}", err=True)


def write_stream(path: Path, content: BinaryIO, *, replace: bool = True) -> None:
    """Write what another file has, as `write_file` does.

    A failure leaves the old file as it was.
    """
    try:
        if replace and _is_replaceable(path):
            with replacing(path) as new, new.open("xb") as file:
                if path.exists():
                    shutil.copymode(path, new)  # before others could read the content
                shutil.copyfileobj(content, file)
        else:
            with path.open("wb" if replace else "xb") as file:
                shutil.copyfileobj(content, file)
    except FileExistsError as error:
        remedy = "Name another file, or remove that one."
        raise UserError(f"write {path}", "it exists already", remedy) from error
    except OSError as error:
        raise UserError(
            f"write {path}", error.strerror or str(error), "Name a file that you can write."
        ) from error


def _is_replaceable(path: Path) -> bool:
    """Return whether a new file may take a path's place; pipes, devices and links are written to.

    So are files of others, with several names or mounted: a new file would not be that. One that
    its user may not write to stays, even if its folder would let it be replaced.
    """
    if path.is_symlink():
        return False
    if not path.exists():
        return True
    of = path.stat()
    is_plain = path.is_file() and of.st_nlink == 1 and not path.is_mount()
    is_own = of.st_uid == os.geteuid() and os.access(path, os.W_OK)
    return is_plain and is_own and os.access(path.parent, os.W_OK | os.X_OK)


def make_folder(path: Path) -> None:
    """Make a folder with those above it, unless it is there; raises UserError."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"create folder {path}",
            error.strerror or str(error),
            "Name a folder that you can write to.",
        ) from error


def parse_labels(
    labels: Sequence[str] | None,
    tried: str = "use --label",
    remedy: str = "Write a name, `=` and a value, such as `--label rack=b2`.",
) -> dict[str, str]:
    """Return labels KEY=VALUE as a mapping; raises UserError."""
    parsed: dict[str, str] = {}
    for label in labels or ():
        key, found, value = label.partition("=")
        # Not `search`: its `$` lets a last line break pass, which the contract refuses.
        fits = re.fullmatch(NAME, key) and re.fullmatch(LABEL, value)
        if not (found and value and fits and len(value) <= LABEL_CHARACTERS):
            raise UserError(f"{tried} {label[:LABEL_CHARACTERS]!r}", "it is not KEY=VALUE", remedy)
        if owner := shadowed(key):
            seen = f"{key} is {owner}, which no label may hide"
            raise UserError(f"{tried} {label!r}", seen, "Give the label another name.")
        parsed[key] = value
    return parsed


def parse_command(option: str, text: str | None) -> tuple[str, ...]:
    """Return a command's words as a shell would part them, none for no command.

    Raises UserError, also if there is no such program: rather now than when it is needed.
    """
    if text is None:
        return ()
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise UserError(f"use {option} {text!r}", str(error), "Close its quotes.") from error
    program = shutil.which(words[0]) if words else None
    if program is None:
        raise UserError(
            f"use {option} {text!r}",
            "there is no such program" if words else "it is empty",
            "Write a program's name or path and its arguments; no shell runs it.",
        )
    return (str(Path(program).absolute()), *words[1:])  # an agent's working folder is another


def parse_seconds(option: str, text: str) -> float:
    """Return a length of time such as 90m, 2h or 3d in seconds; raises UserError."""
    number, unit = text[:-1], text[-1:]
    units = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
    try:
        seconds = float(number) * units[unit]
        if not 0 <= seconds < math.inf:
            raise ValueError(text)
        return seconds
    except (KeyError, ValueError) as error:
        raise UserError(
            f"use {option} {text!r}", "it is not a length of time", "Write 30s, 90m, 2h or 3d."
        ) from error


def checked(
    kind: type[Model], typed: Mapping[str, str] | None = None, /, **fields: object
) -> Model:
    """Make what is sent to the controller; raises UserError in words of the command line.

    typed: the option that the user typed for a field, such as `--for -1h`.
    """
    try:
        return kind(**fields)
    except ValidationError as error:
        fault = faults_of(error)[0]
        given = (typed or {}).get(fault.key) or f"{fault.key} {str(fault.seen)[:LONGEST]!r}"
        raise UserError(f"use {given}", "it is not allowed", f"{fault.remedy}.") from error
