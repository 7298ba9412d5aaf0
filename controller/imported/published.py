"""Reading what others published: the tree of a round, a part of one, or the app's JSON."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Final, NamedTuple

from controller.contracts.base import Scalar, digest
from controller.contracts.catalog import Catalog
from controller.contracts.device import DeviceKind
from controller.contracts.documents import load_json
from controller.contracts.imported import ImportedResult, ImportForm
from controller.contracts.result import Measurement
from controller.contracts.unreadable import UNREADABLE, reason
from controller.imported import app_json, system
from controller.imported.app_json import AppResult
from controller.imported.building import Source, result_of
from controller.imported.entries import Entries, Entry
from controller.imported.figures import (
    LeftOut,
    Measured,
    accuracy_as,
    accuracy_from,
    from_app,
    from_log,
)
from controller.imported.layout import INFERENCE, MOBILE, PERFORMANCE, Owner, Place, place_of
from controller.imported.rounds import Rounds
from controller.imported.tasks import ACCURACY_METRIC, workload_of
from controller.imported.tree import Tree, read_text, read_tree
from controller.loadgen.logs import DETAIL, SUMMARY

SYSTEMS: Final = "systems"
ACCURACY_TEXT: Final = "accuracy.txt"
MOST_LOG_BYTES: Final = 32 * 2**20
MOST_SYSTEM_BYTES: Final = 2**20
_WANTED: Final = app_json.NAMES | {DETAIL, SUMMARY, ACCURACY_TEXT}


@dataclass(slots=True)
class Published:
    """What was found: results, and a line for each thing that is left out."""

    results: list[ImportedResult] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)


class _Task(NamedTuple):
    """A system's benchmark under a scenario, as folders name it."""

    place: tuple[str, ...]
    system: str
    benchmark: str
    scenario: str | None


def read_published(path: Path, catalog: Catalog, round_: str | None) -> Published:
    """Return the results in a folder or in one JSON file of the app.

    round_: of all of them; None to take it from the path, the app's branch, or LoadGen's seeds.
    Raises OSError if nothing can be listed.
    """
    root = path.resolve(strict=True)
    alone = not root.is_dir()
    tree = Tree(root.parent, [PurePosixPath(root.name)]) if alone else None
    tree = tree or read_tree(root, _WANTED, SYSTEMS)
    return _Reader(tree, catalog, Rounds(round_)).read(alone=alone)


class _Reader:
    """Reads one tree."""

    def __init__(self, tree: Tree, catalog: Catalog, rounds: Rounds) -> None:
        self._found = Published(left_out=list(tree.refused))
        self._tree, self._catalog, self._rounds = tree, catalog, rounds
        self._systems: defaultdict[tuple[str, ...], dict[str, tuple[str, dict[str, Scalar]]]]
        self._systems = defaultdict(dict)
        self._accuracies: dict[_Task, tuple[str, Measurement]] = {}
        self._entries = Entries()
        self._refused: Counter[str] = Counter()
        self._summaries = frozenset(path for path in tree.files if path.name == SUMMARY)

    def read(self, *, alone: bool) -> Published:
        """Read all files. alone: the tree is one file, the app's JSON, whatever its name."""
        files = self._tree.files
        jsons = files if alone else [p for p in files if p.name in app_json.NAMES]
        self._each((p for p in files if p.parent.name == SYSTEMS), self._read_system)
        self._each(jsons, self._read_session)
        self._each((p for p in files if p.name == ACCURACY_TEXT), self._read_accuracy)
        self._each((p for p in files if p.name == DETAIL), self._read_log)
        for entry in self._entries.left():
            self._try(entry.path, partial(self._keep_entry, entry))
        for said, count in self._refused.items():
            self._found.left_out.append(f"{said} ({count} results)" if count > 1 else said)
        return self._found

    def _each(
        self, paths: Iterable[PurePosixPath], action: Callable[[PurePosixPath], None]
    ) -> None:
        for path in paths:
            self._try(path, partial(action, path))

    def _try(self, path: PurePosixPath, action: Callable[[], None]) -> None:
        """Do it, or say why what lies at a path is left out."""
        try:
            action()
        except LeftOut as error:
            self._refused[f"{path}: {error}"] += 1
        except UNREADABLE as error:
            self._refused[f"{path}: {reason(error)}"] += 1

    def _text(self, path: PurePosixPath, most: int) -> str:
        return read_text(self._tree.root, path, most)

    def _summary(self, folder: PurePosixPath) -> str | None:
        """Return LoadGen's summary in a folder, or None."""
        path = folder / SUMMARY
        return self._text(path, MOST_LOG_BYTES) if path in self._summaries else None

    def _parts(self, path: PurePosixPath) -> tuple[str, ...]:
        return (*self._tree.root.parts, *path.parts)

    def _read_system(self, path: PurePosixPath) -> None:
        raw = load_json(self._text(path, MOST_SYSTEM_BYTES), MOST_SYSTEM_BYTES)
        owner = self._parts(path)[:-2]
        self._systems[owner][path.stem.lower()] = path.stem, system.flat(raw)

    def _read_session(self, path: PurePosixPath) -> None:
        text = self._text(path, app_json.MOST_BYTES)
        for session, described in zip(*app_json.read_app_json(text), strict=True):
            sound = tuple(one for one in session.results if self._is_sound(path, one))
            kept = session.model_copy(update={"results": sound})
            self._entries.add(path, self._parts(path), kept, described)

    def _is_sound(self, path: PurePosixPath, result: AppResult) -> bool:
        """Return whether an entry's accuracy can be one; say so if it can't."""
        metric = ACCURACY_METRIC.get(workload_of(MOBILE, result.benchmark_id, ""))
        try:
            if metric:
                accuracy_from(result, metric)
        except LeftOut as error:
            self._refused[f"{path}: {result.benchmark_id}: {error}"] += 1
            return False
        return True

    def _read_accuracy(self, path: PurePosixPath) -> None:
        place = place_of(self._parts(path)[:-1])
        said = system.accuracy_of(self._text(path, MOST_SYSTEM_BYTES))
        if place and said:
            self._accuracies[_task(place)] = said[0], accuracy_as(*said)

    def _read_log(self, path: PurePosixPath) -> None:
        place = place_of(self._parts(path)[:-1])
        if place is None:
            raise LeftOut("it lies in no folder as the rounds have it: …/results/SYSTEM/BENCHMARK")
        if place.role != PERFORMANCE:
            return
        name, described = self._described(place.owner, place.system)
        suite = self._rounds.suite_of(self._parts(path)) or place.suite
        if suite == INFERENCE and (why := system.objection(described)):
            raise LeftOut(why)
        text = self._text(path, MOST_LOG_BYTES)
        measured = from_log(text, self._summary(path.parent))
        if place.scenario not in (None, measured.scenario):
            raise LeftOut(f"its folder says {place.scenario}, the log {measured.scenario}")
        entry = self._entries.taken(place, measured)
        source = Source(
            form=ImportForm.LOGS,
            suite=suite,
            round=self._rounds.of_log(suite, self._parts(path), measured, entry),
            division=place.owner.division,
            submitter=place.owner.submitter,
            system=name,
            kind=DeviceKind.CPU_HOST if suite == INFERENCE else system.kind_of(described),
            benchmark=place.benchmark,
            path=self._source(place.owner, path),
            checksum=hashlib.sha256(text.encode()).hexdigest(),
            described={**(entry.described if entry else {}), **described},
            run=place.run,
        )
        self._keep(source, measured, entry, self._accuracies.get(_task(place)))

    def _keep_entry(self, entry: Entry) -> None:
        """Keep a result of the app that has no logs."""
        if entry.session.platform.lower() == "ios":
            raise LeftOut("an iOS device: benchfarm knows Android phones and CPU hosts")
        measured = from_app(entry.result)
        owner = entry.owner
        maker, model = entry.session.device
        name, described = (model, {}) if owner is None else self._described(owner, entry.system)
        described = {**entry.described, **described}
        windows = entry.session.platform.lower() == "windows"
        source = Source(
            form=ImportForm.APP,
            suite=MOBILE,
            round=self._rounds.of_app(self._parts(entry.path), entry),
            division=owner.division if owner else "",
            submitter=(owner.submitter if owner else maker) or "unknown",
            system=name or model or "unknown",
            kind=DeviceKind.CPU_HOST if windows else DeviceKind.ANDROID,
            benchmark=entry.result.benchmark_id,
            path=self._source(owner, entry.path),
            checksum=digest(entry.result.model_dump(mode="json"), 64),
            described=described,
        )
        self._keep(source, measured, entry, None)

    def _keep(
        self,
        source: Source,
        measured: Measured,
        entry: Entry | None,
        accuracy: tuple[str, Measurement] | None,
    ) -> None:
        workload = workload_of(source.suite, source.benchmark, source.round)
        if entry and (metric := ACCURACY_METRIC.get(workload)):
            said = entry.accuracy(metric)
            accuracy = (metric, said) if said else accuracy
        result = entry.result if entry else None
        self._found.results.append(result_of(source, measured, accuracy, result, self._catalog))

    def _described(self, owner: Owner, name: str) -> tuple[str, Mapping[str, Scalar]]:
        """Return a system's name and description; of a submitter with one, it has no folder."""
        known = self._systems.get(owner.place, {})
        if not name and len(known) == 1:
            return next(iter(known.values()))
        _, described = known.get(name.lower(), ("", {}))
        return name or owner.submitter, described

    def _source(self, owner: Owner | None, path: PurePosixPath) -> str:
        """Return a path from the division's folder on, so that it is the same in any folder."""
        if owner is None:
            return path.name
        kept = len(owner.place) - (2 if owner.division else 1)
        return "/".join(self._parts(path)[kept:])


def _task(place: Place) -> _Task:
    return _Task(place.owner.place, place.system, place.benchmark, place.scenario)
