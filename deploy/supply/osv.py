"""Records of vulnerabilities in the OSV format, and which versions they are about.

Source: https://ossf.github.io/osv-schema/, whose evaluation algorithm `affects` follows; PyPI's
versions are ordered as PEP 440 says.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version
from pydantic import BaseModel, ConfigDict

from deploy.supply.pins import Pin

ECOSYSTEM = "PyPI"
_START, _FIRST = "0", Version("0.dev0")
"""Of an event, before every version; and the first there can be."""
_FIXED, _INTRODUCED, _LAST_AFFECTED = range(3)


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class Package(_Part):
    """What is affected: a package of an ecosystem, `NAME` or `NAME:RELEASE`."""

    ecosystem: str
    name: str

    @property
    def pypi_name(self) -> str | None:
        """PyPI's normal form of the name; None for a package of another ecosystem."""
        is_pypi = self.ecosystem.partition(":")[0] == ECOSYSTEM
        return canonicalize_name(self.name) if is_pypi else None


class Event(_Part):
    """Where a range begins or ends; one of them is set."""

    introduced: str | None = None
    fixed: str | None = None
    last_affected: str | None = None
    limit: str | None = None


class Range(_Part):
    """Versions from each `introduced` to what follows it."""

    type: str
    events: tuple[Event, ...] = ()


class Affected(_Part):
    """Versions of one package."""

    package: Package | None = None
    ranges: tuple[Range, ...] = ()
    versions: tuple[str, ...] = ()


class Record(_Part):
    """One vulnerability."""

    id: str
    modified: str = ""
    withdrawn: str | None = None
    aliases: tuple[str, ...] = ()
    summary: str = ""
    affected: tuple[Affected, ...] = ()


class RangeUnreadable(ValueError):
    """A range whose ends have no order, since PEP 440 knows no such version."""


def affects(affected: Affected, version: Version) -> bool:
    """Whether a version is among the affected ones; raises RangeUnreadable."""
    listed = any(_parsed(text) == version for text in affected.versions)
    return listed or any(
        _holds(span, version) for span in affected.ranges if span.type in ("ECOSYSTEM", "SEMVER")
    )


def _holds(span: Range, version: Version) -> bool:
    limits = [event.limit for event in span.events if event.limit is not None]
    if limits and not any(limit == "*" or version < _end(limit) for limit in limits):
        return False
    inside = False
    for at, kind in sorted(step for event in span.events for step in _steps(event)):
        if kind == _INTRODUCED and version >= at:
            inside = True
        elif (kind == _FIXED and version >= at) or (kind == _LAST_AFFECTED and version > at):
            inside = False
    return inside


def _steps(event: Event) -> Iterator[tuple[Version, int]]:
    """Yield where something begins or ends. At one version it ends, begins, and ends after it."""
    if event.fixed is not None:
        yield _end(event.fixed), _FIXED
    if event.introduced is not None:
        yield _FIRST if event.introduced == _START else _end(event.introduced), _INTRODUCED
    if event.last_affected is not None:
        yield _end(event.last_affected), _LAST_AFFECTED


def _end(text: str) -> Version:
    if (found := _parsed(text)) is None:
        raise RangeUnreadable(f"{text[:60]!r} is no version by PEP 440")
    return found


def _parsed(text: str) -> Version | None:
    """Return a version; None for one of the time before PEP 440, which no pin can be."""
    try:
        return Version(text)
    except InvalidVersion:
        return None


def fixes(affected: Affected, version: Version) -> tuple[Version, ...]:
    """Return the later versions in which it is fixed, the next one first."""
    ends = (event.fixed for span in affected.ranges for event in span.events)
    found = {end for text in ends if text and (end := _parsed(text)) and end > version}
    return tuple(sorted(found))


@dataclass(frozen=True, slots=True)
class Finding:
    """A pinned version that a vulnerability is in, under all the ids it has."""

    pin: Pin
    ids: tuple[str, ...]
    fixed: Version | None
    summary: str


def findings(pins: Iterable[Pin], records: Iterable[Record]) -> list[Finding]:
    """Return what is affected, by package; records that are aliases of each other make one.

    Raises:
        RangeUnreadable: a range of a pinned package can't be evaluated; says of which record.

    """
    by_name: dict[str, list[Pin]] = {}
    for pin in pins:
        by_name.setdefault(pin.name, []).append(pin)
    found: dict[Pin, list[tuple[Record, Affected]]] = {}
    for record in records:
        if record.withdrawn is None:
            for pin, part in _hit_by(record, by_name):
                found.setdefault(pin, []).append((record, part))
    return [_finding(pin, group) for pin, hits in sorted(found.items()) for group in _same(hits)]


def _hit_by(record: Record, by_name: Mapping[str, Sequence[Pin]]) -> Iterator[tuple[Pin, Affected]]:
    for part in record.affected:
        name = part.package.pypi_name if part.package else None
        for pin in by_name.get(name or "", ()):
            try:
                is_hit = affects(part, pin.version)
            except RangeUnreadable as error:
                raise RangeUnreadable(f"{record.id}: of {pin.name}, {error}") from error
            if is_hit:
                yield pin, part


def _same(hits: Iterable[tuple[Record, Affected]]) -> list[list[tuple[Record, Affected]]]:
    """Put together what has an id in common."""
    groups: list[tuple[set[str], list[tuple[Record, Affected]]]] = []
    for record, part in sorted(hits, key=lambda hit: hit[0].id):
        ids, members = {record.id, *record.aliases}, [(record, part)]
        for other in [group for group in groups if group[0] & ids]:
            groups.remove(other)
            ids, members = ids | other[0], other[1] + members
        groups.append((ids, members))
    return [members for _, members in groups]


def _finding(pin: Pin, hits: Sequence[tuple[Record, Affected]]) -> Finding:
    own = [record.id for record, _ in hits]
    aliases = sorted({alias for record, _ in hits for alias in record.aliases} - {*own})
    fixed = sorted(end for _, part in hits for end in fixes(part, pin.version)[:1])
    summary = next((record.summary for record, _ in hits if record.summary), "")
    return Finding(pin, (*dict.fromkeys(own), *aliases), fixed[0] if fixed else None, summary)
