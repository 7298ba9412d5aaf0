"""Which files of the model store cells need, and which hosts lack them. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from controller.contracts.base import Contract
from controller.contracts.catalog import Catalog
from controller.contracts.mobile import OnDevice
from controller.contracts.sweep import Cell
from controller.contracts.weights import KNOB
from controller.contracts.wire import CommandProgram, OnDeviceProgram
from controller.scheduling.program import completed, program_of

SHOWN: Final = 4
"""Files that a line names."""
HERE: Final = "this host"
"""In place of an agent: the host that the command runs on, where no agent is known."""
Needed = Mapping[str, str | None]
"""Key of each file, such as WORKLOAD/models/NUMERICS → its published checksum, None without one."""


class HostFiles(Contract):
    """What is known of the files that a plan's cells need on one host."""

    agent_id: str
    """`this host` if no agent is known."""
    host: str
    lacking: tuple[str, ...]
    """Keys of files that are not in its store; if unknown, of all that are needed."""
    known: bool
    """Whether the host has said what is in its store."""

    @property
    def names(self) -> str:
        """The first few of the files, and how many more there are."""
        more = f" and {len(self.lacking) - SHOWN} more" if len(self.lacking) > SHOWN else ""
        return ", ".join(self.lacking[:SHOWN]) + more

    @property
    def command(self) -> str:
        """The command that gets them, to be run on the host."""
        if weights := next((key for key in self.lacking if f"/{KNOB}/" in key), None):
            task, _, name = weights.split("/")
            return f"benchfarm models fetch {task} --weights {name}"
        tasks = {key.partition("/")[0] for key in self.lacking if "/files/" not in key}
        wanted = f"models fetch {' '.join(sorted(tasks))}" if tasks else "models add PATH"
        return f"benchfarm {wanted}"

    @property
    def line(self) -> str:
        """The same as one sentence."""
        if not self.known:
            return f"{self.host}: unknown whether it has {self.names}"
        there = "" if self.agent_id == HERE else "there, "
        return f"{self.host}: lacks {self.names} ({there}run `{self.command}`)"


def needed_files(cell: Cell, catalog: Catalog) -> dict[str, str | None]:
    """Return the files of the model store that a run of a cell needs; benchfarm's own are none.

    Raises SweepInvalid if its workload can't run on its stack.
    """
    whole = completed(cell, catalog)
    found: dict[str, str | None] = {}
    for side in whole.sides():
        program = program_of(side, catalog)
        if isinstance(program, OnDeviceProgram):
            found |= _of_task(side, program.workload, program.workload.dataset_of(side.knobs))
        elif isinstance(program, CommandProgram):
            files = program.command.needed(side.knobs)
            found |= {f"{program.stack}/files/{n}": file.checksum for n, file in files.items()}
            if program.workload:  # the program brings its own inputs
                found |= _of_task(side, program.workload, None)
        elif program.weights:
            found[program.weights.key] = program.weights.checksum
    return found


def _of_task(cell: Cell, workload: OnDevice, dataset: str | None) -> dict[str, str | None]:
    numerics = str(cell.knobs["numerics"])
    model = workload.models[numerics]
    parts = workload.datasets[dataset].parts if dataset else {}
    files = {f"{cell.workload}/{dataset}/{name}": part.checksum for name, part in parts.items()}
    own = {} if model.path else {f"{cell.workload}/models/{numerics}": model.checksum}
    return {**own, **files}


def hosts_without(
    needs: Iterable[tuple[str, Needed]],
    hosts: Mapping[str, str],
    stored: Mapping[str, Collection[str]],
) -> list[HostFiles]:
    """Return the hosts that lack files, or of which that is unknown.

    needs: agent and files of each device; hosts: agent → host; stored: agent → the checksums and
    keys in its store, without an agent that has not said.
    """
    wanted: dict[str, dict[str, str | None]] = {}
    for agent_id, files in needs:
        wanted.setdefault(agent_id, {}).update(files)
    found = []
    for agent_id, files in wanted.items():
        there = stored.get(agent_id, ())
        lacking = tuple(key for key, checksum in files.items() if (checksum or key) not in there)
        if lacking:
            host, known = hosts.get(agent_id, agent_id), agent_id in stored
            found.append(HostFiles(agent_id=agent_id, host=host, lacking=lacking, known=known))
    return found
