"""Results as Arrow tables and Parquet: a row for each metric of a result, as in CSV."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, BinaryIO, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from controller.contracts.flat_result import FlatResult
from controller.platform.garbage import no_collections

TEXTS: Final = (
    *("run_id", "sweep_id", "cell_key", "device", "device_name", "device_kind"),
    *("workload", "stack", "scenario", "validity"),
)
NUMBERS: Final = ("repeat", "attempt")
FLAGS: Final = ("virtual", "counted")
OF_METRICS: Final = ("metric", "value", "unit", "samples")
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
REPEATED: Final = [name for name in SCHEMA.names if name not in ("run_id", "value", "samples")]
"""Columns with few different values in a row group."""
ROWS_AT_ONCE: Final = 2000
"""Results of a row group, at most."""
RESULTS: Final = "benchfarm.results"
"""Key of the number of results in the file's metadata: one without a metric has no row."""


def table_of(results: Sequence[FlatResult], *, samples: bool = True) -> pa.Table:
    """Return results as a table with SCHEMA, in their order, each's metrics by name.

    samples: whether the table has raw samples.
    """
    counts = [len(result.metric) for result in results]
    if not any(counts):
        return SCHEMA.empty_table()
    owners = pa.array(np.repeat(np.arange(len(results)), counts))
    columns: dict[str, Any] = dict(zip(FlatResult._fields, zip(*results, strict=True), strict=True))
    columns["started_at"] = np.rint(np.array(columns["started_at"]) * 1000).astype(np.int64)
    of_metrics = {name: [*chain.from_iterable(columns.pop(name))] for name in OF_METRICS}
    # All at once: a call takes longer than the few numbers of a text.
    texts = f"[{','.join(of_metrics['samples'])}]" if samples else str([[]] * sum(counts))
    of_metrics["samples"] = json.loads(texts, parse_int=float)
    made = [_array(name, column).take(owners) for name, column in columns.items()]
    made += [_array(name, column) for name, column in of_metrics.items()]
    return pa.table(made, schema=SCHEMA)


def parquet_pieces(
    batches: Iterable[Sequence[FlatResult]], *, samples: bool = True
) -> Iterator[bytes]:
    """Yield a Parquet file piece by piece: row groups of each batch, then the footer, which has
    their number.

    samples: whether it has raw samples.
    """
    sink, count = _Sink(), 0
    options: Any = {"compression": "zstd", "use_dictionary": REPEATED}  # `Any`: it has no stubs
    with pq.ParquetWriter(sink, SCHEMA, **options) as writer:
        for batch in batches:
            count += len(batch)
            for start in range(0, len(batch), ROWS_AT_ONCE):
                with no_collections():
                    table = table_of(batch[start : start + ROWS_AT_ONCE], samples=samples)
                writer.write_table(table)
                yield sink.taken()
        writer.add_key_value_metadata({RESULTS: str(count)})
    yield sink.taken()


def results_in(file: BinaryIO) -> int | None:
    """Return the number of results in a Parquet file; None of one that doesn't tell it.

    Raises ValueError if it is no Parquet file.
    """
    try:
        told = (pq.read_metadata(file).metadata or {}).get(RESULTS.encode())
    except (pa.ArrowException, OSError) as error:
        raise ValueError("its answer is no Parquet file") from error
    return None if told is None else int(told)


def _array(name: str, column: Any) -> pa.Array:  # noqa: ANN401 - of any type that the field takes
    return pa.array(column, type=SCHEMA.field(name).type)


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
