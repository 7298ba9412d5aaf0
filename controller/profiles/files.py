"""A profile in a folder: `kernels.parquet`, `primitives.parquet` and `profile.json`; of a trace,
`timeline.parquet`, too.

Each table carries the summary, too, under METADATA: what it is of, and whether it is VALID.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from controller.contracts.documents import read_json
from controller.contracts.profile import ProfileSummary
from controller.contracts.unreadable import UNREADABLE, reason
from controller.profiles.errors import ProfileUnreadable
from controller.profiles.model import (
    PARAMETERS,
    KernelRow,
    Place,
    PrimitiveRow,
    Profile,
    Projection,
    Span,
)

Found = TypeVar("Found")
MAX_SUMMARY_BYTES = 2**24
METADATA = b"benchfarm.profile"
"""Key of the summary in the metadata of a table."""
KERNELS, PRIMITIVES, SUMMARY = "kernels.parquet", "primitives.parquet", "profile.json"
TIMELINE = "timeline.parquet"

_PLACE = [(field.name, pa.string()) for field in fields(Place)]
_REPLAY = [
    *((name, pa.float64()) for name in ("replay_s", "replay_low_s", "replay_high_s")),
    ("replay_runs", pa.int64()),
]
_KERNEL = ("calls", "self_s", "total_s", "primitive_s", "flops", "bytes", "attainable_s")
_PRIMITIVE_TEXT = (
    *("engine", "primitive", "implementation", "direction", "data_types", "dtype", "layout"),
    *("attributes", "post_ops", "algorithm", "problem", "body"),
)
_PRIMITIVE = ("calls", "seconds", "least_s", "flops", "bytes", "attainable_s")


def _numbers(names: Iterable[str]) -> list[tuple[str, Any]]:
    return [(name, pa.float64()) for name in names]


KERNEL_SCHEMA = pa.schema([*_PLACE, *_numbers(_KERNEL), *_REPLAY])
PRIMITIVE_SCHEMA = pa.schema(
    [
        *_PLACE,
        *((name, pa.string()) for name in _PRIMITIVE_TEXT),
        *((name, pa.int64()) for name in PARAMETERS),
        *_numbers(_PRIMITIVE),
        *_REPLAY,
    ]
)

_SPAN_TEXT = ("kind", "name", "detail")
TIMELINE_SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in _SPAN_TEXT),
        *((name, pa.int64()) for name in ("thread", "lane")),
        *_numbers(("start_s", "seconds")),
    ]
)


def write(profile: Profile, folder: Path) -> None:
    """Write a profile into a new or existing folder; raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    said = {METADATA: profile.summary.model_dump_json().encode()}
    kernels = [_flat(row, _KERNEL) for row in profile.kernels]
    primitives = [
        _flat(row, (*_PRIMITIVE_TEXT, *_PRIMITIVE)) | {n: row.parameters.get(n) for n in PARAMETERS}
        for row in profile.primitives
    ]
    tables = [(KERNELS, kernels, KERNEL_SCHEMA), (PRIMITIVES, primitives, PRIMITIVE_SCHEMA)]
    if profile.timeline:
        tables.append((TIMELINE, [asdict(span) for span in profile.timeline], TIMELINE_SCHEMA))
    else:
        (folder / TIMELINE).unlink(missing_ok=True)  # another profile's
    for name, rows, schema in tables:
        table = pa.Table.from_pylist(rows, schema=schema).replace_schema_metadata(said)
        pq.write_table(table, folder / name, write_page_checksum=True)
    (folder / SUMMARY).write_text(profile.summary.model_dump_json(indent=2) + "\n")


def read(folder: Path) -> Profile:
    """Read a profile that `write` wrote; raises ProfileUnreadable."""
    summary = _read(folder / SUMMARY, _summary)
    kernels = _read(folder / KERNELS, partial(_columns, schema=KERNEL_SCHEMA))
    primitives = _read(folder / PRIMITIVES, partial(_columns, schema=PRIMITIVE_SCHEMA))
    timeline = _timeline(folder / TIMELINE)
    place_of = lru_cache(maxsize=None)(Place)  # most kernels share theirs with primitives
    return Profile(
        summary,
        tuple(
            KernelRow(place=place_of(*place), replay=_replay(*replay), **row)
            for place, replay, row in _rows(kernels, _KERNEL)
        ),
        tuple(
            PrimitiveRow(
                place=place_of(*place),
                replay=_replay(*replay),
                parameters={name: of for name, of in parameters.items() if of is not None},
                **row,
            )
            for (place, replay, row), parameters in zip(
                _rows(primitives, (*_PRIMITIVE_TEXT, *_PRIMITIVE)),
                _dicts(primitives, PARAMETERS),
                strict=True,
            )
        ),
        timeline,
    )


def _timeline(path: Path) -> tuple[Span, ...]:
    """Read the spans; none of logs and of earlier releases, which have no such file."""
    if not path.exists():
        return ()
    columns = _read(path, partial(_columns, schema=TIMELINE_SCHEMA))
    rows = zip(*(columns[name] for name in TIMELINE_SCHEMA.names), strict=True)
    return tuple(Span(*row) for row in rows)


def _read(path: Path, reader: Callable[[Path], Found]) -> Found:
    try:
        return reader(path)
    except (*UNREADABLE, pa.ArrowException) as error:
        seen = reason(error) if isinstance(error, UNREADABLE) else str(error).partition("\n")[0]
        raise ProfileUnreadable(
            f"read profile {path.parent}",
            f"{path.name}: {ascii(seen)[1:-1]}",
            "Name a folder that `benchfarm profile run` or `benchfarm profile import` has written.",
        ) from error


def _summary(path: Path) -> ProfileSummary:
    return read_json(ProfileSummary, path, MAX_SUMMARY_BYTES)


def _columns(path: Path, schema: pa.Schema) -> dict[str, list[Any]]:
    with path.open("rb") as file:  # given a path, pyarrow would read a folder as an empty table
        table = pq.read_table(file, schema=schema, page_checksum_verification=True)
    return {name: _values(table.column(name)) for name in table.column_names}


def _values(column: pa.ChunkedArray) -> list[Any]:
    """Return a column's values; equal texts are one object, as profiles repeat theirs often."""
    if column.type != pa.string():
        found: list[Any] = column.to_pylist()
        return found
    encoded = column.combine_chunks().dictionary_encode()
    texts = encoded.dictionary.to_pylist()
    return [None if index is None else texts[index] for index in encoded.indices.to_pylist()]


def _rows(
    columns: Mapping[str, list[Any]], names: Sequence[str]
) -> Iterator[tuple[tuple[Any, ...], tuple[Any, ...], dict[str, Any]]]:
    """Yield place, replay and all else of each row."""
    places = zip(*(columns[name] for name, _ in _PLACE), strict=True)
    replays = zip(*(columns[name] for name, _ in _REPLAY), strict=True)
    return zip(places, replays, _dicts(columns, names), strict=True)


def _dicts(columns: Mapping[str, list[Any]], names: Sequence[str]) -> Iterator[dict[str, Any]]:
    rows = zip(*(columns[name] for name in names), strict=True)
    return (dict(zip(names, row, strict=True)) for row in rows)


def _flat(row: KernelRow | PrimitiveRow, names: Sequence[str]) -> dict[str, Any]:
    replay = row.replay
    return {
        **{field.name: getattr(row.place, field.name) for field in fields(Place)},
        **{name: getattr(row, name) for name in names},
        "replay_s": replay.seconds if replay else None,
        "replay_low_s": replay.low if replay else None,
        "replay_high_s": replay.high if replay else None,
        "replay_runs": replay.runs if replay else None,
    }


def _replay(
    seconds: float | None, low: float | None, high: float | None, runs: int | None
) -> Projection | None:
    if seconds is None or low is None or high is None or runs is None:
        return None
    return Projection(seconds=seconds, low=low, high=high, runs=runs)
