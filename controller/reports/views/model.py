"""The content of a report without its form: figures, texts and their order, no markup."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from controller.contracts.base import Scalar
from controller.contracts.capability import Capability
from controller.contracts.device import likeness
from controller.contracts.result import Validity
from controller.contracts.units import Unit
from controller.reports.groups import NoRatio
from controller.stats.medians import Ratio

Interval = tuple[float, float]


@dataclass(frozen=True, slots=True)
class DeviceName:
    """The name of a device for people; always shows whether the device is virtual."""

    id: str
    virtual: bool
    model: str = ""
    """Model of the processor or phone from its results; empty if none has it."""
    emulated: bool = False
    name: str = ""
    """Its shown name; empty if unknown."""
    imported_from: str = ""
    """Suite, round and division that published its results; empty for a device of ours."""

    @property
    def shown(self) -> str:
        """Its name, or its id if that is unknown."""
        return self.name or self.id

    def __str__(self) -> str:
        kind = likeness(
            virtual=self.virtual, emulated=self.emulated, imported_from=self.imported_from
        )
        return f"{self.shown}{kind}"


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric as a column or an axis."""

    name: str
    heading: str
    unit: Unit


@dataclass(frozen=True, slots=True)
class Quality:
    """The quality of a model's answers; `target` if the rules require one."""

    metric: Metric
    target: float | None


@dataclass(frozen=True, slots=True)
class Distribution:
    """Quantiles of the raw samples of a row's VALID results."""

    samples: int
    quantiles: tuple[float, float, float, float, float]
    """The 1, 25, 50, 75 and 99 % quantiles."""


@dataclass(frozen=True, slots=True)
class Row:
    """One cell on one device in a ranking."""

    rank: int | None
    """From 1; None without a VALID result."""
    label: str
    """What distinguishes it from the other rows, in one line."""
    device: DeviceName
    subject: str
    """In a comparison: its subject."""
    stack: str
    knobs: tuple[str, ...]
    """Values of the columns' knobs, in the columns' order."""
    all_knobs: Mapping[str, Scalar]
    cell_key: str
    median: float | None
    interval: Interval | None
    """95 % interval of the median."""
    vs_best: Ratio | None
    """How many times as fast as the best row; None for the best row itself."""
    vs_reference: Ratio | None
    no_ratio: NoRatio | None
    """Why `vs_reference` is None, though the ranking has a reference."""
    other_device: DeviceName | None
    """Where the reference was measured, if not on the row's own device."""
    is_reference: bool
    quality: float | None
    details: tuple[float | None, ...]
    """Medians of the columns' other metrics, in the columns' order."""
    ranges: tuple[str, ...]
    """Of each of them that is a ratio and was measured more than once; else empty."""
    distribution: Distribution | None
    energy_unknown: str
    """Why its energy is unknown; empty if it is known, or not mentioned."""
    target_unknown: str
    """Why its quality has no target; empty if it has one, or if it gave no reason."""
    reference_differs: str
    """How far its answers are from the reference's, if that is too far; else empty."""
    reference_unknown: str
    """Why there is no reference for its answers; empty if there is, or if it gave none."""
    scaling_lost: Mapping[str, float]
    """To what shares of a step of several ranks are lost; empty without any."""
    random_weights: bool
    """It is of a model that has learnt nothing."""
    valid: int
    disturbed: int
    invalid: int
    failed: int
    reasons: tuple[str, ...]
    """Why results are not VALID and attempts failed."""


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of a ranking."""

    metric: Metric
    """The scenario's ranking metric."""
    compares_speed: bool
    """See ScenarioManifest.compares_speed."""
    quality: Quality | None
    details: tuple[Metric, ...]
    distribution: Metric | None
    """The metric with the raw samples behind the ranking metric, if any."""
    several_stacks: bool
    knobs: tuple[str, ...]
    """Knobs that differ between rows."""
    fixed: tuple[str, ...]
    """What is equal in all rows, stack and knobs, as `name=value`."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """Cells that do the same task under the same scenario, best first.

    Virtual devices have separate rankings, since their numbers are never compared with real ones.
    """

    anchor: str
    workload: str
    workload_title: str
    scenario: str
    scenario_title: str
    virtual: bool
    problem: str
    """Knobs of the workload that distinguish this ranking from others of the workload."""
    columns: Columns
    reference: str
    """What `vs_reference` refers to: `baseline`, a subject's name, or empty."""
    rows: tuple[Row, ...]
    verdicts: tuple[str, ...]

    @property
    def name(self) -> str:
        """The ranking's name: workload, scenario and `problem`."""
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
    """Paired comparisons of two cells that took turns on one device."""

    anchor: str
    device: DeviceName
    task: str
    """Workload and scenario."""
    a: str
    b: str
    pairs: int
    sessions: int
    """Comparisons taken together, each one draw."""
    validity: Validity
    """VALID or DISTURBED."""
    verdict: str
    ratio: Ratio
    points: tuple[PairPoint, ...]
    """Every pair, those of the warm-up too, in order."""


@dataclass(frozen=True, slots=True)
class Score:
    """The score of a device's best row in one ranking; 1 is the best of all."""

    share: float
    tied: bool
    """Whether it is equal to the best or not resolved from it."""


@dataclass(frozen=True, slots=True)
class Scoreboard:
    """Scores of devices in rankings; separate for real and virtual devices."""

    virtual: bool
    rankings: tuple[Ranking, ...]
    rows: tuple[tuple[DeviceName, tuple[Score | None, ...]], ...]


@dataclass(frozen=True, slots=True)
class DelegateColumn:
    """A device's column in a table of delegates."""

    device: DeviceName
    build: str
    """Build of its system; empty if the report has only one build of the device."""


@dataclass(frozen=True, slots=True)
class DelegateRow:
    """A kind of request, and its outcome on each device."""

    kind: tuple[str, str, str, str]
    """Task, stack, delegate, number format."""
    outcomes: tuple[Capability | None, ...]
    """Outcomes in the order of the columns; None if it was not tried."""


@dataclass(frozen=True, slots=True)
class DelegateTable:
    """Delegates by device, for as many devices as fit on a page."""

    columns: tuple[DelegateColumn, ...]
    rows: tuple[DelegateRow, ...]


@dataclass(frozen=True, slots=True)
class Rejected:
    """A measurement that broke its run rules and is not used."""

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
    """The facts of a device (in a comparison: of one subject's device), in the table's order."""

    device: DeviceName
    subject: str
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FactTable:
    """Facts that differ: one row a device, one column a fact."""

    title: str
    facts: tuple[str, ...]
    rows: tuple[FactRow, ...]


@dataclass(frozen=True, slots=True)
class Conditions:
    """The conditions of the measurements on one kind of device."""

    kind: str
    devices: tuple[DeviceName, ...]
    same: tuple[tuple[str, str], ...]
    differing: tuple[FactTable, ...]
    note: str = ""
    """What has to be said beside results under MLPerf's name."""


@dataclass(frozen=True, slots=True)
class ReportView:
    """A whole report."""

    title: str
    description: str
    facts: tuple[tuple[str, str], ...]
    """What was run and when, as names and values."""
    scoreboards: tuple[Scoreboard, ...]
    rankings: tuple[Ranking, ...]
    compared: tuple[Compared, ...]
    delegates: tuple[DelegateTable, ...]
    rejected: tuple[Rejected, ...]
    failed: tuple[Failed, ...]
    conditions: tuple[Conditions, ...]
    """One for each kind of device, since servers and phones share few facts."""
    any_virtual: bool
