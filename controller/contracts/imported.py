"""Results that others published: never measured here, and told apart everywhere."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from controller.contracts.base import Contract, Scalar, digest
from controller.contracts.records import StoredResult

IMPORTED = "imported"
"""What the ids of imported results, their sweeps and their devices begin with."""
ID_LENGTH = 12


class ImportForm(StrEnum):
    """What an imported result was read from."""

    LOGS = "logs"
    """LoadGen's logs in the tree of a submission."""
    APP = "app"
    """The result JSON of MLPerf's mobile app."""


class ImportOrigin(Contract):
    """Where an imported result was published."""

    form: ImportForm
    suite: str
    """`MLPerf Mobile` or `MLPerf Inference`."""
    round: str
    """Such as `v4.0`."""
    division: str = ""
    """`closed` or `open`; empty if the source does not say."""
    submitter: str
    system: str
    """The name of the system, as its folder or its app has it."""
    benchmark: str
    """As published."""
    source: str
    """Path of what was read, from the root of the tree."""
    checksum: str
    """SHA-256 of what was read, hex."""
    described: dict[str, Scalar] = {}
    """The system's description, flat: `software.Android_version` and the like."""
    unknown: tuple[str, ...] = ()
    """What its logs should say, and do not: a line each."""

    @property
    def title(self) -> str:
        """Suite and round."""
        return f"{self.suite} {self.round}"

    @property
    def device(self) -> str:
        """The id of the system among devices; no device of a farm has such a one.

        A row has the results of one device, so each round and division of a system has its own.
        """
        named = [self.suite, self.round, self.division, self.submitter, self.system]
        return f"{IMPORTED}-{digest(named, ID_LENGTH)}"

    @property
    def sweep_id(self) -> str:
        """The id that all results of the suite and round share in place of a sweep's."""
        return f"{IMPORTED}-{self.title.lower().replace(' ', '-')}"


class ImportedResult(StoredResult):
    """A published result in the shape of a stored one.

    The store has none: what reads the store for baselines, newest results or plans cannot meet one.
    """

    imported: ImportOrigin

    @property
    def imported_from(self) -> str:
        """Suite, round and division."""
        return f"{self.imported.title} {self.imported.division}".rstrip()


def imported_id(origin: ImportOrigin, scenario: str) -> str:
    """Return the id of a result: of the same logs it is the same, in whatever folder they are.

    Its round is not in it, so that one result is not imported as two rounds'.
    """
    named = [origin.suite, origin.submitter, origin.system, origin.benchmark, scenario]
    return f"{IMPORTED}-{digest([*named, origin.checksum], ID_LENGTH)}"


def imported_cell(workload: str, scenario: str, knobs: Mapping[str, Scalar]) -> str:
    """Return the key of an imported result's cell; equal to none of a sweep's."""
    return digest([IMPORTED, workload, scenario, dict(knobs)])
