"""Results as Arrow tables and Parquet: a row for each metric of a result, as in CSV."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from controller.contracts.base import canonical_json
from controller.contracts.records import StoredResult

TEXTS: Final = (
    *("run_id", "sweep_id", "cell_key", "device", "device_name", "device_kind"),
    *("workload", "stack", "scenario", "validity"),
)
NUMBERS: Final = ("repeat", "attempt")
FLAGS: Final = ("virtual", "counted")
SCHEMA: Final = pa.schema(
    [
        *(pa.field(name, pa.string()) for name in TEXTS),
        *(pa.field(name, pa.int32()) for name in NUMBERS),
        *(pa.field(name, pa.bool_()) for name in FLAGS),
        # To the millisecond, as in JSON.
        pa.field("started_at", pa.timestamp("ms", tz="UTC")),
        pa.field("reasons", pa.list_(pa.string())),
        pa.field("tags", pa.list_(pa.string())),
        pa.field("knobs", pa.string()),  # JSON
        pa.field("environment", pa.string()),  # JSON
        pa.field("metric", pa.string()),
        pa.field("value", pa.float64()),
        pa.field("unit", pa.string()),
        pa.field("samples", pa.list_(pa.float64())),
    ]
)
"""Columns of the table; times are in UTC, knobs and environment are canonical JSON."""


def table_of(results: Sequence[StoredResult]) -> pa.Table:
    """Return results as a table with SCHEMA, in their order, each's metrics by name."""
    columns: dict[str, list[Any]] = {name: [] for name in SCHEMA.names}
    for result in results:
        _add(columns, result)
    return pa.table(columns, schema=SCHEMA)


def parquet_pieces(batches: Iterable[Sequence[StoredResult]]) -> Iterator[bytes]:
    """Yield a Parquet file piece by piece: a row group for each batch, then the footer."""
    sink = _Sink()
    with pq.ParquetWriter(sink, SCHEMA, compression="zstd") as writer:
        for batch in batches:
            if batch:
                writer.write_table(table_of(batch))
                yield sink.taken()
    yield sink.taken()


def _add(columns: dict[str, list[Any]], result: StoredResult) -> None:
    metrics = sorted(result.metrics.items())
    same = {
        **{name: str(getattr(result, name)) for name in TEXTS},
        **{name: getattr(result, name) for name in (*NUMBERS, *FLAGS)},
        "started_at": round(result.started_at * 1000),
        "reasons": list(result.reasons),
        "tags": list(result.tags),
        "knobs": canonical_json(result.knobs),
        "environment": canonical_json(result.environment),
    }
    for name, value in same.items():
        columns[name].extend([value] * len(metrics))
    for name, measured in metrics:
        columns["metric"].append(name)
        columns["value"].append(measured.value)
        columns["unit"].append(measured.unit.value)
        columns["samples"].append(list(measured.samples))


class _Sink(io.RawIOBase):
    """A file that keeps what was written until it is taken."""

    def __init__(self) -> None:
        super().__init__()
        self._kept: list[bytes] = []
        self._written = 0

    def writable(self) -> bool:
        """See io.IOBase."""
        return True

    def write(self, data: Any) -> int:  # noqa: ANN401 - any buffer
        """See io.RawIOBase."""
        self._kept.append(bytes(data))
        self._written += len(self._kept[-1])
        return len(self._kept[-1])

    def tell(self) -> int:
        """See io.IOBase."""
        return self._written

    def taken(self) -> bytes:
        """Return what was written since it was last taken."""
        taken, self._kept = b"".join(self._kept), []
        return taken
