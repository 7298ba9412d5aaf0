"""Five sweeps, of 1 to 200 cells, whose tables are kept as people see them.

`python -P -m tests.support.table_examples` writes the tables anew; read what has changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Final

from controller.contracts.base import Scalar
from controller.contracts.catalog import Catalog
from controller.contracts.command import Command, Figure
from controller.contracts.device import DeviceKind
from controller.contracts.manifests import Knob, ScenarioManifest, StackManifest
from controller.contracts.records import StoredFailure, StoredResult
from controller.contracts.result import Measurement, Validity
from controller.contracts.units import Unit
from controller.reports.summary import Summary, summarise
from controller.reports.summary_table import summary_lines
from tests.support.sweep_examples import catalog, failure, queried, result, trained

KEPT: Final = Path(__file__).parents[1] / "unit" / "reports" / "tables"
WIDTHS: Final = (80, 100, 140, 200)
SEE_ALL: Final = "`benchfarm sweep status made-up-1 --csv`"
LONG: Final = "rack-b2-server-with-a-long-name-{:02}-of-the-second-floor"


@dataclass(frozen=True)
class TableExample:
    """What a sweep left, and its baseline."""

    results: Sequence[StoredResult]
    failures: Sequence[StoredFailure] = ()
    baseline: Mapping[str, Scalar] = field(default_factory=dict)

    @property
    def summary(self) -> Summary:
        """What it found."""
        return summarise(self.results, self.failures, self.baseline, with_program())

    def lines(self, width: int) -> list[str]:
        """Return its tables."""
        return summary_lines(self.summary.rankings, width, SEE_ALL)


def with_program() -> Catalog:
    """Return the catalogue with a user's own program, which has figures of its own."""
    known = catalog()
    rate = Figure(unit=Unit.TOKENS_PER_SECOND, pattern="rate (?P<value>[0-9]+)")
    command = Command(
        arguments=("tool",),
        timeout_s=60,
        figures={"decode_rate": rate, "prefill_rate": rate},
        result="decode_rate",
        rules="its own",
    )
    own = StackManifest(
        name="own",
        title="",
        device_kinds=(DeviceKind.CPU_HOST,),
        command=command,
        knobs={"threads": Knob(type="int", default=1, description="", work=False)},
    )
    scenario = ScenarioManifest(name="own", title="", metric="decode_rate")
    return known.model_copy(
        update={"stacks": {"own": own}, "scenarios": {**known.scenarios, "own": scenario}}
    )


def steps(seconds: float, run: int) -> tuple[float, ...]:
    """Return eight step times that differ by some percent."""
    return tuple(seconds * (1 + 0.01 * ((7 * n + 3 * run) % 5)) for n in range(8))


def examples() -> dict[str, TableExample]:
    """Return the sweeps by name."""
    return {
        "one": TableExample([result(metrics=trained(steps(0.3, 0)))]),
        "sizes": TableExample(list(_sizes()), baseline={"precision": "fp32"}),
        "phones": TableExample(list(_phones())),
        "program": TableExample(list(_program()), baseline={"threads": 1}),
        "large": TableExample(
            list(_large()),
            [failure(device=LONG.format(19), knobs={"threads": 128})],
            {"threads": 1, "precision": "fp32"},
        ),
    }


def _sizes() -> Iterator[StoredResult]:
    """Yield the README's sweep on two servers; one has no baseline of the larger size."""
    loud = {"validity": Validity.DISTURBED, "reasons": ("others kept 1.42 of 2 cores busy",)}
    for size, device, precision, run in product(
        (256, 512), ("cpu-8d14a2f2", "cpu-67b5aa01"), ("fp32", "bf16"), range(3)
    ):
        second = device == "cpu-67b5aa01"
        if (size, second, precision) == (512, True, "fp32"):
            continue
        pace = size / 700 * (1.7 if second else 1.0) * (0.62 if precision == "bf16" else 1.0)
        disturbed = (size, second, precision) == (512, False, "bf16")
        yield result(
            device=device,
            repeat=run,
            metrics=trained(steps(pace, run)),
            knobs={
                "size": size,
                "precision": precision,
                "memory_format": "channels_last" if precision == "bf16" else "contiguous",
                "steps": 20,
            },
            **(loud if disturbed else {}),
        )


def _phones() -> Iterator[StoredResult]:
    """Yield two scenarios on a server and virtual phones, of which one tells no energy."""
    for scenario, number in product(("single_stream", "offline"), range(3)):
        name = ("cpu-8d14a2f2", "VIRTUALFLAGSHIPPHONE0001", "VIRTUALMIDRANGEPHONE0001")[number]
        metrics = queried(steps(0.0001837 * (1 + number), 0))
        if scenario == "offline":
            rate = Measurement(value=5238.6 / (1 + number), unit=Unit.SAMPLES_PER_SECOND)
            metrics = {"throughput": rate, "top1": metrics["top1"]}
        if number == 1:
            metrics["energy"] = Measurement(value=0.0213, unit=Unit.JOULES_PER_QUERY)
        charged = {"energy_unknown": "the phone was being charged"} if number == 2 else {}
        yield result(
            device=name,
            virtual=number > 0,
            device_kind=DeviceKind.ANDROID if number else DeviceKind.CPU_HOST,
            workload="w1",
            stack="litert",
            scenario=scenario,
            metrics=metrics,
            environment=charged,
        )


def _program() -> Iterator[StoredResult]:
    """Yield what a user's own program measured, with its own figures."""
    for threads, run in product((1, 2, 4), range(2)):
        rates = {
            "decode_rate": tuple(10.25 * threads**0.8 / one for one in steps(1.0, run)),
            "prefill_rate": tuple(95.5 * threads / one for one in steps(1.0, run)),
        }
        yield result(
            repeat=run,
            workload="w0",
            stack="own",
            scenario="own",
            knobs={"threads": threads},
            metrics={
                n: Measurement.of_samples(r, Unit.TOKENS_PER_SECOND) for n, r in rates.items()
            },
            environment={"rules": "its own"},
        )


def _large() -> Iterator[StoredResult]:
    """Yield 200 rows: ten cells on each of twenty devices with long names."""
    threads = (1, 2, 4, 8, 16)
    for device, count, precision, run in product(range(20), threads, ("fp32", "bf16"), range(2)):
        pace = (1.5 if precision == "fp32" else 1.0) * (1 + 0.1 * device) * (0.3 + 1 / count)
        yield result(
            device=LONG.format(device),
            repeat=run,
            metrics=trained(steps(pace, run)),
            knobs={"threads": count, "precision": precision},
        )


def kept(example: TableExample) -> str:
    """Return what is kept of a sweep's tables: each width, and of long ones the ends."""
    parts = []
    for width in WIDTHS:
        lines = example.lines(width)
        if len(lines) > 40:
            lines = [*lines[:16], f"… {len(lines) - 24} lines …", *lines[-8:]]
        parts += [f"{width} columns", "", *lines, ""]
    return "\n".join(parts)


if __name__ == "__main__":
    KEPT.mkdir(exist_ok=True)
    for name, example in examples().items():
        (KEPT / f"{name}.txt").write_text(kept(example), encoding="utf-8")
