"""A profile in a folder: `kernels.parquet`, `primitives.parquet` and `profile.json`; of a trace,
`timeline.parquet`, too.

Each table carries the summary, too, under METADATA: what it is of, and whether it is VALID.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, fields
from functools import partial
from itertools import repeat
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from controller.contracts.counters import LEAST, MOST
from controller.contracts.documents import DocumentRefused, read_json, read_limited
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
from controller.profiles.timeline import FIRST_LANE, MOST_SPANS
from controller.profiles.trace import MOST_S

Found = TypeVar("Found")
MAX_SUMMARY_BYTES, MAX_TABLE_BYTES = 2**24, 2**29
METADATA = b"benchfarm.profile"
"""Key of the summary in the metadata of a table."""
KERNELS, PRIMITIVES, SUMMARY = "kernels.parquet", "primitives.parquet", "profile.json"
TIMELINE = "timeline.parquet"
ROUNDED_S = 1e-3
"""By which the rounding of clocks may make a span shorter than nothing."""
MOST_SUM_S = 1e15
"""Of all calls of a row: more than any log can hold, whose lines tell of a day at most."""
MOST_ROWS = 1_000_000
"""Kernels or primitives that are read: of the largest steps, a profile has a tenth. A few bytes may
tell of any number of equal rows, each of which takes memory."""

_PLACE = [(field.name, pa.string()) for field in fields(Place)]
_REPLAY = [
    *((name, pa.float64()) for name in ("replay_s", "replay_low_s", "replay_high_s")),
    ("replay_runs", pa.int64()),
]
_OPTIONAL = ("flops", "bytes", "attainable_s")
"""Numbers that are not known of each row."""
_KERNEL = ("calls", "self_s", "total_s", "primitive_s")
_PRIMITIVE_TEXT = (
    *("engine", "primitive", "implementation", "direction", "data_types", "dtype", "layout"),
    *("attributes", "post_ops", "algorithm", "problem", "body"),
)
_PRIMITIVE = ("calls", "seconds", "least_s")
_KEPT = "kept"
"""A column that earlier releases did not write."""


def _numbers(names: Iterable[str], kind: pa.DataType) -> list[pa.Field]:
    """Return columns of numbers that each row has."""
    return [pa.field(name, kind, nullable=False) for name in names]


_MAYBE = [(name, pa.float64()) for name in _OPTIONAL]
KERNEL_SCHEMA = pa.schema([*_PLACE, *_numbers(_KERNEL, pa.float64()), *_MAYBE, *_REPLAY])
PRIMITIVE_SCHEMA = pa.schema(
    [
        *_PLACE,
        *((name, pa.string()) for name in _PRIMITIVE_TEXT),
        *((name, pa.int64()) for name in PARAMETERS),
        *_numbers(_PRIMITIVE, pa.float64()),
        (_KEPT, pa.float64()),
        *_MAYBE,
        *_REPLAY,
    ]
)

_SECONDS = (*_KERNEL[1:], *_PRIMITIVE[1:], "replay_s", "replay_low_s", "replay_high_s")
_BOUNDS: Mapping[str, tuple[float, float]] = {
    **dict.fromkeys(_SECONDS, (-ROUNDED_S, MOST_SUM_S)),
    **dict.fromkeys(("calls", *_OPTIONAL, "replay_runs"), (0.0, MOST)),
    _KEPT: (0.0, 1.0),
}
"""Column of kernels or primitives → least and most of its numbers."""

_SPAN_TEXT = ("kind", "name", "detail")
TIMELINE_SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in _SPAN_TEXT),
        *_numbers(("thread", "lane"), pa.int64()),
        *_numbers(("start_s", "seconds"), pa.float64()),
    ]
)


def write(profile: Profile, folder: Path) -> None:
    """Write a profile into a new or existing folder; raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    said = {METADATA: profile.summary.model_dump_json().encode()}
    kernels = [_flat(row, (*_KERNEL, *_OPTIONAL)) for row in profile.kernels]
    primitives = [
        _flat(row, (*_PRIMITIVE_TEXT, *_PRIMITIVE, _KEPT, *_OPTIONAL))
        | {name: row.parameters.get(name) for name in PARAMETERS}
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
    kernels = _read(folder / KERNELS, partial(_rows_of, schema=KERNEL_SCHEMA))
    primitives = _read(folder / PRIMITIVES, partial(_rows_of, schema=PRIMITIVE_SCHEMA))
    return Profile(
        summary,
        _rows(KernelRow, kernels),
        _rows(
            PrimitiveRow,
            primitives,
            parameters=_parameters(primitives),
            kept=[1.0 if share is None else share for share in primitives[_KEPT]],
        ),
        _timeline(folder / TIMELINE),
    )


def _timeline(path: Path) -> tuple[Span, ...]:
    """Read the spans; none of logs and of earlier releases, which have no such file."""
    if not path.exists():
        return ()
    columns = _read(path, _spans)
    rows = zip(*(columns[name] for name in TIMELINE_SCHEMA.names), strict=True)
    return tuple(Span(*row) for row in rows)


def _spans(path: Path) -> dict[str, list[Any]]:
    """Return the columns of spans; raises ArrowInvalid for what no timeline has.

    A page has as many rows as threads and lanes, and all times at once.
    """
    columns = _columns(path, TIMELINE_SCHEMA, MOST_SPANS, "spans")
    count = len(columns["thread"])
    bounds = {
        "thread": (0, count),
        "lane": (0, FIRST_LANE + 1 + count),  # nested, below the lanes of the step and its phases
        "start_s": (-MOST_S, MOST_S),  # of another thread, maybe before the step
        "seconds": (-ROUNDED_S, MOST_S),
    }
    _require(columns, bounds)
    return columns


def _rows_of(path: Path, schema: pa.Schema) -> dict[str, list[Any]]:
    """Return the columns of kernels or primitives; raises ArrowInvalid for what no step has."""
    columns = _columns(path, schema, MOST_ROWS, "rows")
    _require(columns, {name: _BOUNDS[name] for name in schema.names if name in _BOUNDS})
    return columns


def _require(columns: Mapping[str, list[Any]], bounds: Mapping[str, tuple[float, float]]) -> None:
    for name, (least, most) in bounds.items():
        known = [value for value in columns[name] if value is not None]
        smallest = min(map(abs, filter(None, known)), default=LEAST)
        if known and not (least <= min(known) <= max(known) <= most and smallest >= LEAST):
            raise pa.ArrowInvalid(f'column "{name}" has values that no step has')


def _read(path: Path, reader: Callable[[Path], Found]) -> Found:
    try:
        _require_file(path)
        return reader(path)
    except (*UNREADABLE, pa.ArrowException) as error:
        seen = reason(error) if isinstance(error, UNREADABLE) else str(error).partition("\n")[0]
        raise ProfileUnreadable(
            f"read profile {path.parent}",
            f"{path.name}: {ascii(seen)[1:-1]}",
            "Name a folder that `benchfarm profile run` or `benchfarm profile import` has written.",
        ) from error


def _require_file(path: Path) -> None:
    """Raise DocumentRefused for what may have no end, such as a pipe, and for too large a file."""
    found = path.stat()
    if not (S_ISREG(found.st_mode) or S_ISDIR(found.st_mode)):  # whoever opens a folder says so
        raise DocumentRefused("it is no regular file")
    if found.st_size > MAX_TABLE_BYTES:
        raise DocumentRefused(f"it has more than {MAX_TABLE_BYTES} bytes")


def _summary(path: Path) -> ProfileSummary:
    return read_json(ProfileSummary, path, MAX_SUMMARY_BYTES)


def _columns(path: Path, schema: pa.Schema, most: int, what: str) -> dict[str, list[Any]]:
    """Return the values of each column. Raises ArrowInvalid for columns of one name.

    most: rows that are read; what: their name in the error for a file of more.
    """
    # From memory and without threads: Arrow's, even idle, may abort a process that ends.
    data = pa.py_buffer(read_limited(path, MAX_TABLE_BYTES))
    told = pq.read_metadata(pa.BufferReader(data))
    if (rows := _most_rows(told)) > most:
        raise pa.ArrowInvalid(f"it has {rows:,} {what}, more than the {most:,} that are read")
    known = told.schema
    columns = [known.column(number) for number in range(len(known))]
    texts = [column.path for column in columns if column.physical_type == "BYTE_ARRAY"]
    table = pq.ParquetFile(  # not `read_table`, which loads what reads folders of files
        pa.BufferReader(data), page_checksum_verification=True, read_dictionary=texts
    ).read(use_threads=False)
    if len({*table.column_names}) < table.num_columns:
        raise pa.ArrowInvalid("two of its columns have one name")
    return {field.name: _values(table, field) for field in schema}


def _most_rows(told: pq.FileMetaData) -> int:
    """Return the most rows that a file may have, whichever of its counts is the right one."""
    groups = map(told.row_group, range(told.num_row_groups))
    return int(max(told.num_rows, sum(map(_most_rows_of, groups))))


def _most_rows_of(group: pq.RowGroupMetaData) -> int:
    columns = map(group.column, range(group.num_columns))
    return int(max(0, group.num_rows, *(column.num_values for column in columns)))


def _values(table: pa.Table, field: pa.Field) -> list[Any]:
    """Return a column's values; empty texts or None if an earlier release did not write it.

    Raises ArrowInvalid for a column of another type, or that lacks numbers which each row has.
    """
    column = (
        table.column(field.name)
        if field.name in table.column_names
        else pa.chunked_array([pa.nulls(table.num_rows, field.type)])
    )
    if field.type == pa.string():
        return _texts(column)
    numbers = column.cast(field.type)
    if numbers.null_count and not field.nullable:
        raise pa.ArrowInvalid(f'column "{field.name}" lacks values')
    if not pc.all(pc.is_finite(numbers), min_count=0).as_py():
        raise pa.ArrowInvalid(f'column "{field.name}" has values that are no numbers')
    found: list[Any] = numbers.to_pylist()
    return found


def _texts(column: pa.ChunkedArray) -> list[str]:
    """Return a column's texts; equal ones are one object, as profiles repeat theirs often.

    Raises ArrowInvalid for a column of another type.
    """
    kind = pa.dictionary(pa.int32(), pa.string())
    encoded = column.cast(kind).unify_dictionaries().combine_chunks()
    texts = encoded.dictionary.to_pylist()
    return ["" if index is None else texts[index] for index in encoded.indices.to_pylist()]


def _rows(
    kind: type[Found], columns: Mapping[str, list[Any]], **own: Iterable[Any]
) -> tuple[Found, ...]:
    """Return rows of a kind; own: fields that are no columns."""
    count = len(columns[_PLACE[0][0]])
    replays = map(_replay, *(columns[name] for name, _ in _REPLAY))
    places = _made(Place, columns, count)
    return tuple(_made(kind, {**columns, "place": places, "replay": replays, **own}, count))


def _made(kind: type[Found], columns: Mapping[str, Iterable[Any]], count: int) -> list[Found]:
    """Return objects of a frozen dataclass with slots; a field without a column has its default.

    Filled field by field: `__init__` of a frozen one takes thrice as long, of very many.
    """
    found = [*map(object.__new__, repeat(kind, count))]
    for field in fields(kind):  # type: ignore[arg-type]  # a dataclass
        values = columns.get(field.name, repeat(field.default))
        deque(map(getattr(kind, field.name).__set__, found, values), maxlen=0)
    return found


def _parameters(columns: Mapping[str, list[Any]]) -> list[dict[str, int]]:
    """Return the parameters that each row has: of most kinds, few. By column, which is quicker."""
    found: list[dict[str, int]] = [{} for _ in columns["primitive"]]
    for name in PARAMETERS:
        for parameters, of in zip(found, columns[name], strict=True):
            if of is not None:
                parameters[name] = of
    return found


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
