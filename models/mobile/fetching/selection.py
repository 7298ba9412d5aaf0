"""Which files of the catalogue a request to fetch means. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

import httpx

from controller.contracts.documents import short
from controller.contracts.errors import UserError
from controller.contracts.mobile import Dataset
from controller.contracts.models import FetchRequest
from controller.contracts.suite_rules import SuiteRules
from models.mobile.catalogue import Entry
from models.mobile.remedies import command_for, is_on_web


@dataclass(frozen=True, slots=True)
class WantedFile:
    """A published file, and the entries of the catalogue that it is for."""

    source: str
    checksum: str | None
    licence: str | None
    entries: tuple[Entry, ...]

    @property
    def name(self) -> str:
        """The file's name at its source."""
        return self.path.rpartition("/")[2]

    @property
    def path(self) -> str:
        """The file's path below its host, which is the same below a mirror."""
        return unquote(urlsplit(self.source).path).strip("/")

    @property
    def stem(self) -> str:
        """A name for the unfinished file, which is safe as a part of a path."""
        if self.checksum:
            return self.checksum.replace(":", "-")
        return f"source-{hashlib.sha256(self.source.encode()).hexdigest()}"

    @property
    def by_hand(self) -> str:
        """What to do where it cannot be fetched."""
        known = self.checksum or "no published checksum"
        key = "" if self.checksum else f" --as {self.entries[0].key}"
        return (
            f"Copy {self.name} to this host from {self.source} ({known}), "
            f"then run `benchfarm models add PATH{key}`."
        )


@dataclass(frozen=True, slots=True)
class ManualFile:
    """A file or folder without an address, which the user has to get."""

    entry: Entry
    asked_for: bool
    """Whether the request can't be met without it."""

    @property
    def remedy(self) -> str:
        """What the user has to do."""
        content, key = self.entry.content, self.entry.key
        at = f" from {content.source}" if content.source else ""
        licence = f" ({self.entry.licence})" if self.entry.licence else ""
        return f"Get it{at}{licence}, then run `{command_for(key, content, self.entry.kind)}`."

    def error(self) -> UserError:
        """Return why it is not fetched."""
        return UserError(f"fetch {self.entry.key}", "no address of it is known", self.remedy)


@dataclass(frozen=True, slots=True)
class Selection:
    """What a request means."""

    files: tuple[WantedFile, ...]
    manual: tuple[ManualFile, ...]
    refused: tuple[tuple[str, UserError], ...] = ()
    """Key of each file whose address can't be used, and why."""


def tasks_of(request: FetchRequest, suites: Sequence[SuiteRules]) -> tuple[str, ...]:
    """Return the tasks that are named, and those of the suite's version; raises UserError."""
    if request.suite is None:
        return request.tasks
    rules = {one.version: one for one in suites}
    if request.suite not in rules:
        known = f"Choose among {', '.join(rules)}."
        raise UserError(f"fetch suite {request.suite}", "there is no such version", known)
    return tuple(dict.fromkeys((*request.tasks, *rules[request.suite].tasks)))


def select(tasks: Iterable[str], request: FetchRequest, entries: Iterable[Entry]) -> Selection:
    """Return the files that a request means; raises UserError for a name that nothing has."""
    by_task: dict[str, list[Entry]] = {}
    for entry in entries:
        if entry.workload or entry.is_weights:
            by_task.setdefault(entry.key.partition("/")[0], []).append(entry)
    named: list[Entry] = []
    for task in tasks:
        if task not in by_task:
            seen = "no workload with files has this name"
            raise UserError(f"fetch {task}", seen, f"Choose among {', '.join(sorted(by_task))}.")
        named += by_task[task]
    others = [e for e in named if not e.is_weights]
    _require_some("--weights", request.weights, {e.size for e in named if e.is_weights})
    _require_some("--numerics", request.numerics, {e.size for e in others if e.is_model})
    _require_some("--dataset", request.datasets, {e.size for e in others if not e.is_model})
    chosen = [entry for entry in named if not entry.own and _is_wanted(entry, request)]
    web = [(entry, _refusal(entry)) for entry in chosen if is_on_web(entry.content)]
    manual = (_manual(entry, request) for entry in chosen if not is_on_web(entry.content))
    return Selection(
        _merged(entry for entry, refusal in web if refusal is None),
        tuple(manual),
        tuple((entry.key, refusal) for entry, refusal in web if refusal),
    )


def _refusal(entry: Entry) -> UserError | None:
    """Return why the address of a file can't be used; None if it can."""
    source = str(entry.content.source)
    try:
        urlsplit(source)  # its brackets, too, have to be right
        seen = "" if httpx.URL(source).host else "it names no host"
    except (httpx.InvalidURL, ValueError) as error:
        seen = str(error)
    if not seen:
        return None
    remedy = "Correct the key source in the task's file."
    return UserError(f"fetch {entry.key} from {short(source)}", seen, remedy)


def _is_wanted(entry: Entry, request: FetchRequest) -> bool:
    if entry.is_weights:
        return not request.weights or entry.size in request.weights
    if entry.is_model:
        return not request.numerics or entry.size in request.numerics
    if request.datasets:
        return entry.size in request.datasets
    # Without a choice: what can be fetched whole, and the first, so that the user is told of it.
    sets = entry.workload.datasets if entry.workload else {}
    return entry.size == next(iter(sets)) or _is_whole(sets[entry.size])


def _is_whole(dataset: Dataset) -> bool:
    return all(map(is_on_web, dataset.parts.values()))


def _merged(entries: Iterable[Entry]) -> tuple[WantedFile, ...]:
    """Join entries of one file: several data sets may share it."""
    by_file: dict[tuple[str, str | None], list[Entry]] = {}
    for entry in entries:
        by_file.setdefault((str(entry.content.source), entry.content.checksum), []).append(entry)
    return tuple(
        WantedFile(source, checksum, among[0].licence, tuple(among))
        for (source, checksum), among in by_file.items()
    )


def _manual(entry: Entry, request: FetchRequest) -> ManualFile:
    asked = bool(request.weights) if entry.is_weights else entry.is_model or bool(request.datasets)
    return ManualFile(entry, asked_for=asked)


def _require_some(option: str, given: Iterable[str], known: Collection[str]) -> None:
    for name in given:
        if name not in known:
            remedy = f"Choose among {', '.join(sorted(known))}." if known else "Leave it out."
            raise UserError(f"fetch with {option} {name}", "no chosen task has it", remedy)
