"""A profile in a folder: `kernels.parquet`, `primitives.parquet` and `profile.json`.

Each table carries the summary, too, under METADATA: what it is of, and whether it is VALID.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from functools import partial
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
)

Found = TypeVar("Found")
MAX_SUMMARY_BYTES = 2**24
METADATA = b"benchfarm.profile"
"""Key of the summary in the metadata of a table."""
KERNELS, PRIMITIVES, SUMMARY = "kernels.parquet", "primitives.parquet", "profile.json"

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


def write(profile: Profile, folder: Path) -> None:
    """Write a profile into a new or existing folder; raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    said = {METADATA: profile.summary.model_dump_json().encode()}
    kernels = [_flat(row, _KERNEL) for row in profile.kernels]
    primitives = [
        _flat(row, (*_PRIMITIVE_TEXT, *_PRIMITIVE)) | {n: row.parameters.get(n) for n in PARAMETERS}
        for row in profile.primitives
    ]
    for name, rows, schema in (
        (KERNELS, kernels, KERNEL_SCHEMA),
        (PRIMITIVES, primitives, PRIMITIVE_SCHEMA),
    ):
        table = pa.Table.from_pylist(rows, schema=schema).replace_schema_metadata(said)
        pq.write_table(table, folder / name, write_page_checksum=True)
    (folder / SUMMARY).write_text(profile.summary.model_dump_json(indent=2) + "\n")


def read(folder: Path) -> Profile:
    """Read a profile that `write` wrote; raises ProfileUnreadable."""
    summary = _read(folder / SUMMARY, _summary)
    kernels = _read(folder / KERNELS, partial(_rows, schema=KERNEL_SCHEMA))
    primitives = _read(folder / PRIMITIVES, partial(_rows, schema=PRIMITIVE_SCHEMA))
    return Profile(
        summary,
        tuple(
            KernelRow(place=_place(row), replay=_replay(row), **_only(row, _KERNEL))
            for row in kernels
        ),
        tuple(
            PrimitiveRow(
                place=_place(row),
                replay=_replay(row),
                parameters={n: row[n] for n in PARAMETERS if row[n] is not None},
                **_only(row, (*_PRIMITIVE_TEXT, *_PRIMITIVE)),
            )
            for row in primitives
        ),
    )


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


def _rows(path: Path, schema: pa.Schema) -> list[dict[str, Any]]:
    with path.open("rb") as file:  # given a path, pyarrow would read a folder as an empty table
        rows: list[dict[str, Any]] = pq.read_table(
            file, schema=schema, page_checksum_verification=True
        ).to_pylist()
    return rows


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


def _place(row: Mapping[str, Any]) -> Place:
    return Place(**_only(row, [field.name for field in fields(Place)]))


def _replay(row: Mapping[str, Any]) -> Projection | None:
    if row["replay_s"] is None:
        return None
    return Projection(
        seconds=row["replay_s"],
        low=row["replay_low_s"],
        high=row["replay_high_s"],
        runs=row["replay_runs"],
    )


def _only(row: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    return {name: row[name] for name in names}
