"""What a report shows, decided but not drawn: every figure, word and order, no markup."""

from __future__ import annotations

from dataclasses import dataclass

from controller.contracts.capability import Capability
from controller.contracts.device import likeness
from controller.contracts.units import Unit
from controller.stats.bootstrap import Ratio

Interval = tuple[float, float]


@dataclass(frozen=True, slots=True)
class DeviceName:
    """A device as people know it; says whether it is virtual wherever it shows."""

    id: str
    virtual: bool
    model: str = ""
    """Processor or phone, as its results tell; empty where none does."""
    emulated: bool = False

    def __str__(self) -> str:
        return f"{self.id}{likeness(virtual=self.virtual, emulated=self.emulated)}"


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric as a column or an axis."""

    name: str
    heading: str
    unit: Unit


@dataclass(frozen=True, slots=True)
class Quality:
    """How good a model's answers are, beside its speed; `target` where the rules ask for one."""

    metric: Metric
    target: float | None


@dataclass(frozen=True, slots=True)
class Distribution:
    """Quantiles of the raw samples of a row's VALID results."""

    samples: int
    quantiles: tuple[float, float, float, float, float]
    """At 1, 25, 50, 75 and 99 %."""


@dataclass(frozen=True, slots=True)
class Row:
    """One cell on one device, as it stands in its ranking."""

    rank: int | None
    """From 1; None where nothing VALID was measured."""
    label: str
    """What tells it from the other rows, in one line."""
    device: DeviceName
    subject: str
    """In a comparison: what it belongs to."""
    stack: str
    knobs: tuple[str, ...]
    """Values of the columns' knobs, in their order."""
    median: float | None
    interval: Interval | None
    """95 % bootstrap interval of the median."""
    vs_best: Ratio | None
    """How many times as fast as the best row; None for the best itself."""
    vs_reference: Ratio | None
    is_reference: bool
    quality: float | None
    details: tuple[float | None, ...]
    """Medians of the columns' other metrics, in their order."""
    ranges: tuple[str, ...]
    """Of each of them that is a ratio and was measured more than once; else empty."""
    distribution: Distribution | None
    energy_unknown: str
    """Why its energy is not told; empty where it is, or nothing is said of it."""
    valid: int
    invalid: int
    failed: int


@dataclass(frozen=True, slots=True)
class Columns:
    """What a ranking says of each row."""

    metric: Metric
    """The scenario's own: it ranks."""
    quality: Quality | None
    details: tuple[Metric, ...]
    distribution: Metric | None
    """The metric with raw samples behind the ranking one, if there is any."""
    several_stacks: bool
    knobs: tuple[str, ...]
    """Knobs that differ between rows."""
    fixed: tuple[str, ...]
    """What is the same for all rows: stack and knobs, as `name=value`."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """Cells that do the same task under the same scenario, best first.

    Virtual devices have rankings of their own: their numbers are never set against real ones.
    """

    anchor: str
    workload: str
    workload_title: str
    scenario: str
    scenario_title: str
    virtual: bool
    problem: str
    """Knobs of the workload that set this ranking apart from others of the same workload."""
    columns: Columns
    reference: str
    """What `vs_reference` is about: `baseline`, a subject's name, or empty for nothing."""
    rows: tuple[Row, ...]
    verdicts: tuple[str, ...]

    @property
    def name(self) -> str:
        """The ranking's name: workload, scenario and what sets it apart."""
        parts = (self.workload, self.scenario, self.problem, "virtual" if self.virtual else "")
        return " · ".join(part for part in parts if part)


@dataclass(frozen=True, slots=True)
class PairPoint:
    """A pair of a paired comparison."""

    ratio: float
    """How many times better B was than A."""
    is_warmup: bool
    """Left out of the ratio of all."""
    ended_s: float | None
    """Seconds since the comparison's first batch; None where that is not known."""


@dataclass(frozen=True, slots=True)
class Compared:
    """VALID paired comparisons of two cells that took turns on one device."""

    anchor: str
    device: DeviceName
    task: str
    """Workload and scenario."""
    a: str
    b: str
    pairs: int
    sessions: int
    """Comparisons taken together, each one draw."""
    verdict: str
    ratio: Ratio
    points: tuple[PairPoint, ...]
    """Every pair, those of the warm-up too, in order."""


@dataclass(frozen=True, slots=True)
class Score:
    """How a device's best row stands in one ranking: 1 is the best of all."""

    share: float
    tied: bool
    """Whether it is equal to the best or not resolved from it."""


@dataclass(frozen=True, slots=True)
class Scoreboard:
    """Devices against rankings; real and virtual devices have one each."""

    virtual: bool
    rankings: tuple[Ranking, ...]
    rows: tuple[tuple[DeviceName, tuple[Score | None, ...]], ...]


@dataclass(frozen=True, slots=True)
class DelegateColumn:
    """A device in a table of delegates."""

    device: DeviceName
    build: str
    """Of its system; empty where it has one only, in this report."""


@dataclass(frozen=True, slots=True)
class DelegateRow:
    """What was asked for, and what came of it on each device."""

    kind: tuple[str, str, str, str]
    """Task, stack, delegate, number format."""
    outcomes: tuple[Capability | None, ...]
    """In the order of the columns; None where it was not tried."""


@dataclass(frozen=True, slots=True)
class DelegateTable:
    """Delegates against as many devices as fit on a page."""

    columns: tuple[DelegateColumn, ...]
    rows: tuple[DelegateRow, ...]


@dataclass(frozen=True, slots=True)
class Rejected:
    """A measurement that broke its run rules, so that nothing was made of it."""

    run_id: str
    device: DeviceName
    cell: str
    validity: str
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Failed:
    """An attempt that measured nothing."""

    run_id: str
    attempt: int
    device: DeviceName
    cell: str
    blame: str
    kind: str
    message: str
    output: str


@dataclass(frozen=True, slots=True)
class FactRow:
    """What is known of a device (in a comparison: of one subject's), in the order of a table."""

    device: DeviceName
    subject: str
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FactTable:
    """Facts that are not the same everywhere: a line a device, a column a fact."""

    title: str
    facts: tuple[str, ...]
    rows: tuple[FactRow, ...]


@dataclass(frozen=True, slots=True)
class Conditions:
    """Where and how the numbers of one kind of device came to be."""

    kind: str
    devices: tuple[DeviceName, ...]
    same: tuple[tuple[str, str], ...]
    differing: tuple[FactTable, ...]


@dataclass(frozen=True, slots=True)
class ReportView:
    """A whole report."""

    title: str
    description: str
    facts: tuple[tuple[str, str], ...]
    """What was run and when, as name and value."""
    scoreboards: tuple[Scoreboard, ...]
    rankings: tuple[Ranking, ...]
    compared: tuple[Compared, ...]
    delegates: tuple[DelegateTable, ...]
    rejected: tuple[Rejected, ...]
    failed: tuple[Failed, ...]
    conditions: tuple[Conditions, ...]
    """One for each kind of device: facts of servers and of phones have little in common."""
    any_virtual: bool
