"""The content of a published board without its form: rankings, and where each figure comes from."""

from __future__ import annotations

from dataclasses import dataclass

from controller.contracts.published import PublishedRun
from controller.contracts.records import StoredResult
from controller.reports.views.model import Conditions, DeviceName, Ranking, Row, Scoreboard


@dataclass(frozen=True, slots=True)
class Cost:
    """What a row's devices cost for an amount of its task."""

    amount: float
    """In the unit of the device's price."""
    of: str
    """The amount, as `1000 steps`."""
    an_hour: float
    """The price of the device, or of all hosts that trained together."""
    metric: str
    value: float
    """The metric, and its median, that the cost comes from."""


@dataclass(frozen=True, slots=True)
class BoardRun:
    """A result behind a row, and what the board holds of its run."""

    result: StoredResult
    published: PublishedRun
    value: float | None
    """Its value of the metric that ranks the row."""
    used: bool
    """Whether the row's figure comes from it."""


@dataclass(frozen=True, slots=True)
class BoardRow:
    """A row of a ranking, with its provenance."""

    key: str
    """Name of its page; the same in every board for one cell on one device."""
    device_key: str
    """Name of its device's page."""
    row: Row
    runs: tuple[BoardRun, ...]
    conditions: tuple[Conditions, ...]
    costs: tuple[Cost, ...]


@dataclass(frozen=True, slots=True)
class BoardRanking:
    """A ranking, and its rows with their provenance, in the same order."""

    ranking: Ranking
    rows: tuple[BoardRow, ...]
    names_mlperf: bool
    """Whether its titles have MLPerf's name; then `unverified` stands beside."""

    @property
    def ranked(self) -> int:
        """How many of its rows have a rank."""
        return sum(row.row.rank is not None for row in self.rows)


@dataclass(frozen=True, slots=True)
class BoardDevice:
    """A device, and its rows in all rankings."""

    key: str
    name: DeviceName
    places: tuple[tuple[BoardRanking, BoardRow], ...]
    conditions: tuple[Conditions, ...]


@dataclass(frozen=True, slots=True)
class Board:
    """A whole board."""

    title: str
    facts: tuple[tuple[str, str], ...]
    """What was measured and when, as names and values."""
    notes: tuple[str, ...]
    """What was left out, and why; sentences."""
    currency: str
    """Of prices; may be empty."""
    scoreboards: tuple[Scoreboard, ...]
    rankings: tuple[BoardRanking, ...]
    devices: tuple[BoardDevice, ...]
    any_virtual: bool
    not_verified: str
    """The sentence that stands beside results under MLPerf's name; else empty."""

    @property
    def device_keys(self) -> dict[str, str]:
        """The name of each device's page, by the device's id."""
        return {device.name.id: device.key for device in self.devices}
