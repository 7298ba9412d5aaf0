"""`python -P -m tests.support.kill_matrix`: kill each kind of process at each moment of a sweep.

On namespaced hosts: a head with a Prometheus and a virtual phone, and a host that has joined it.
Prints how long each kill kept the farm from being whole, and what it lost or doubled. Needs root.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

import psutil

from controller.contracts.device import DeviceState
from controller.contracts.run import AttemptState, Run, RunState
from controller.platform.ports import free_ports
from controller.store.integrity import check
from tests.integration.farm import training_sweep
from tests.support.fleet import BENCHFARM, HOME, Fleet, fleet_up
from tests.support.namespaced_hosts import Host, Program, lab
from tests.support.process_kinds import (
    AGENT,
    ANSWERING,
    CONTROLLER,
    HEAD,
    KINDS,
    NODE,
    Kind,
    command_lines,
    matching,
    processes_of,
)
from tests.support.processes import is_dead
from tests.support.virtual_phone import PHONE
from tests.support.waiting import eventually

MOMENTS = ("idle", "starting", "measuring", "handing in", "recovering")
SERIAL = "MATRIX1"
THERE = {DeviceState.READY, DeviceState.BUSY, DeviceState.COOLING}
ENDED = {RunState.DONE, RunState.FAILED, RunState.CANCELLED}
LIMIT_S = 180.0
"""When a farm that isn't whole, or a sweep that doesn't end, is given up."""
SOON_S = 0.1
LOOK_S = 1.0
"""Looking costs CPU time that the farm needs to come back."""


@dataclass(frozen=True, slots=True)
class Kill:
    """What one kill came to."""

    kind: str
    moment: str
    seconds: float | None
    """Until the farm was whole for good; None if there was no such process at that moment."""
    violations: tuple[str, ...] = ()


@dataclass(slots=True)
class Matrix:
    """A farm of two hosts and a phone, whose processes are killed."""

    fleet: Fleet
    hosts: dict[str, Host]
    cpus: list[str]
    """The ids of both hosts as devices."""
    tended: list[tuple[Program, Callable[[], Program]]]
    """What a person or systemd starts again when it has ended, and how."""
    usual: Counter[str] = field(default_factory=Counter)
    """How many processes of each kind that lasts a whole farm has."""
    sweeps: int = 0

    def kill(self, kind: Kind, moment: str) -> Kill:
        """Kill a process of a kind at a moment; see the sweeps of that time to their end."""
        sweeps = [] if moment == "idle" else self._submit(kind)
        frozen = self._reach(moment, sweeps)
        victim = self._victim(kind, sweeps)
        if victim:
            victim.kill()
            eventually(lambda: is_dead(victim), "its end", SOON_S)
        began = time.monotonic()
        with suppress(psutil.NoSuchProcess):
            if frozen:
                frozen.resume()
        whole_s, sweeps = self._until_over(kind, sweeps, began)
        if whole_s is None:
            seen = f"not over in {LIMIT_S:.0f} s: {self.lacks() or self._open(sweeps)}"
            return Kill(kind.name, moment, LIMIT_S, (seen,))
        violations = tuple(self._violations(sweeps))
        return Kill(kind.name, moment, whole_s if victim else None, violations)

    def lacks(self) -> str:
        """Return what the farm lacks; "" if it is whole."""
        lines = {name: command_lines(host) for name, host in self.hosts.items()}
        for kind in KINDS:
            found = len(matching(kind, lines[kind.host]))
            if kind.lasts and found != self.usual[kind.name]:
                return f"{kind.name}: {found} processes, not {self.usual[kind.name]}"
        return self._absent()

    def _absent(self) -> str:
        said = self.hosts[HEAD].run([BENCHFARM, "device", "list", "--json"])
        if said.returncode or said.stderr:
            return said.stderr.strip()
        known = {d["device"]["id"]: d["state"] for d in json.loads(said.stdout)}
        absent = [f"{name} is {state}" for name, state in known.items() if state not in THERE]
        return ", ".join(absent)

    def _submit(self, kind: Kind) -> list[str]:
        """Have the phone answer queries and the joined host train, a run each.

        The head answers queries, too, where that is what is to be killed.
        """
        self.sweeps += 1
        by_id = [f'device == "{device}"' for device in (SERIAL, *self.cpus)]
        train = training_sweep(f"train-{self.sweeps}", devices=by_id[2])
        answers = {
            "name": f"answer-{self.sweeps}",
            "workload": "shapes_classifier",
            "stack": "litert",
            "scenario": "offline",
            "devices": by_id[: 2 if kind is ANSWERING else 1],
            "deadline_s": 200,
        }
        return [self.fleet.submit(sweep) for sweep in (answers, train)]

    def _reach(self, moment: str, sweeps: Sequence[str]) -> psutil.Process | None:
        """Return at a moment; what is returned is frozen until the kill."""
        if moment in ("starting", "measuring", "handing in", "recovering"):
            eventually(lambda: any(r.lease for r in self._runs(sweeps)), "a lease", SOON_S)
        if moment in ("measuring", "handing in"):
            eventually(lambda: self._at_work() or self._over(sweeps), "work", SOON_S)
        if moment == "handing in":
            (controller,) = processes_of(CONTROLLER, self.hosts)
            controller.suspend()
            eventually(self._outcomes, "an outcome that nobody takes", SOON_S)
            return controller
        if moment == "recovering":
            for kind in (CONTROLLER, AGENT):
                for process in processes_of(kind, self.hosts):
                    process.kill()
        return None

    def _victim(self, kind: Kind, sweeps: Sequence[str]) -> psutil.Process | None:
        """Return the process to kill; what runs bring about is waited for while they last."""
        waits = bool(sweeps) and (not kind.lasts or kind in (CONTROLLER, AGENT))
        while True:
            if len(found := processes_of(kind, self.hosts)) > kind.place:
                return found[kind.place]
            if not waits or self._over(sweeps):
                return None
            time.sleep(SOON_S)

    def _until_over(
        self, kind: Kind, sweeps: list[str], began: float
    ) -> tuple[float | None, list[str]]:
        """Look on until the sweeps have ended; return since when the farm was whole for good."""
        whole_since: float | None = None
        while time.monotonic() < began + LIMIT_S:
            self._tend()
            looked = time.monotonic()
            if self.lacks():
                whole_since = None
            else:
                whole_since = whole_since or looked
                try:
                    sweeps = sweeps or self._submit(kind)
                except AssertionError:  # a device has gone since it was looked at
                    whole_since = None
                else:
                    if self._over(sweeps):
                        return whole_since - began, sweeps
            time.sleep(LOOK_S)
        return None, sweeps

    def _tend(self) -> None:
        for place, (program, start) in enumerate(self.tended):
            if program.entrance.poll() is not None:
                self.tended[place] = (start(), start)

    def _violations(self, sweeps: Sequence[str]) -> Iterator[str]:
        eventually(lambda: not self._at_work() and not self._outcomes(), "nothing left over")
        for sweep_id in sweeps:
            said = self.fleet.cli("results", "list", "--sweep", sweep_id, "--json")
            counted = Counter(r["run_id"] for r in json.loads(said) if r["counted"])
            for run in self.fleet.runs(sweep_id):
                yield from violations_of(run, counted[run.run_id])
        yield from check(self.fleet.home.store).damage

    def _runs(self, sweeps: Sequence[str]) -> list[Run]:
        return [run for sweep_id in sweeps for run in self.fleet.runs(sweep_id)]

    def _over(self, sweeps: Sequence[str]) -> bool:
        return not self._open(sweeps)

    def _open(self, sweeps: Sequence[str]) -> list[str]:
        return [f"{r.run_id} {r.state}" for r in self._runs(sweeps) if r.state not in ENDED]

    def _at_work(self) -> bool:
        return any(processes_of(kind, self.hosts) for kind in KINDS if not kind.lasts)

    def _outcomes(self) -> list[Path]:
        agents = (self.fleet.home.agent, self.hosts[NODE].path(HOME / "agent"))
        return [file for agent in agents for file in agent.glob("*/outbox/*.json")]


def violations_of(run: Run, counted: int) -> Iterator[str]:
    """Say what is wrong with a run of an ended sweep; counted: its results that count."""
    states = [attempt.state for attempt in run.attempts]
    name = f"{run.run_id} ({run.cell.workload})"
    if run.state is not RunState.DONE or counted != 1:
        yield f"{name} is {run.state} with {counted} results: {', '.join(states)}"
    if states.count(AttemptState.SUCCEEDED) != 1 or AttemptState.LEASED in states:
        yield f"{name} has attempts {', '.join(states)}"
    if (numbers := [a.number for a in run.attempts]) != list(range(1, len(numbers) + 1)):
        yield f"{name} has attempts of numbers {numbers}"


@contextmanager
def matrix(folder: Path) -> Iterator[Matrix]:
    """Give a farm that is whole."""
    with lab(folder) as switch, switch.host(HEAD) as head, switch.host(NODE) as node:
        (port,) = free_ports(1)
        words = [word for word in PHONE if word != "--until-stdin-closes"]
        own = (f"--serial={SERIAL}", f"--port={port}", "--profile=flagship", "--any-key")
        with fleet_up(head, "--prometheus") as fleet:
            starts: tuple[Callable[[], Program], ...] = (
                lambda: head.start([*words, *own]),
                lambda: fleet.join(node),
            )
            tended = [(start(), start) for start in starts]
            cpus = [_device_of(fleet, host) for host in (head, node)]
            eventually(tended[0][0].log.read_bytes, "the phone runs")
            fleet.cli("phone", "connect", f"127.0.0.1:{port}")
            farm = Matrix(fleet, {HEAD: head, NODE: node}, cpus, tended)
            kinds = (kind for kind in KINDS if kind.lasts)
            farm.usual.update({k.name: len(processes_of(k, farm.hosts)) for k in kinds})
            eventually(lambda: not farm.lacks(), "the farm is whole")
            try:
                yield farm
            finally:
                fleet.cli("down")


def _device_of(fleet: Fleet, host: Host) -> str:
    return eventually(lambda: fleet.device_of(host), f"{host.name} is a device")


def table(kills: Sequence[Kill]) -> Iterator[str]:
    """Return lines: for each kind and moment the median and the longest of seconds."""
    cells: dict[tuple[str, str], list[float]] = defaultdict(list)
    for kill in kills:
        if kill.seconds is not None:
            cells[kill.kind, kill.moment].append(kill.seconds)
    yield f"{'seconds until whole':30}" + "".join(f"{moment:>16}" for moment in MOMENTS)
    for kind in dict.fromkeys(kill.kind for kill in kills):
        yield f"{kind:30}" + "".join(f"{_cell(cells[kind, m]):>16}" for m in MOMENTS)
    struck = [kill.seconds for kill in kills if kill.seconds is not None]
    violations = [f"{k.kind}, {k.moment}: {v}" for k in kills for v in k.violations]
    longest = max(struck, default=0.0)
    yield f"{len(struck)} kills, at the longest {longest:.1f} s, {len(violations)} violations"
    yield from violations


def _cell(seconds: Sequence[float]) -> str:
    if not seconds:
        return "–"
    return f"{statistics.median(seconds):.1f}/{max(seconds):.1f}"


def main() -> int:
    """Print the table; exit status 1 with violations."""
    parser = argparse.ArgumentParser(description=__doc__)
    names = [kind.name for kind in KINDS]
    parser.add_argument("--kinds", nargs="+", choices=names, default=names)
    parser.add_argument("--moments", nargs="+", choices=MOMENTS, default=MOMENTS)
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--json", type=Path, help="a line a kill; those in it are printed, too")
    told = parser.parse_args()
    kills = _recorded(told.json)
    # The hosts have no way out, by which a bundle could be fetched.
    subprocess.run([BENCHFARM, "bundle", "build", f"litert-{platform.machine()}"], check=True)
    with tempfile.TemporaryDirectory(prefix="kills-") as folder, matrix(Path(folder)) as farm:
        for kind in (kind for kind in KINDS if kind.name in told.kinds):
            for moment in [m for m in MOMENTS if m in told.moments] * told.times:
                eventually(lambda: not farm.lacks(), "the farm is whole")
                kills.append(farm.kill(kind, moment))
                sys.stdout.write(f"{json.dumps(asdict(kills[-1]))}\n")
                sys.stdout.flush()
                if told.json:
                    with told.json.open("a") as file:
                        file.write(f"{json.dumps(asdict(kills[-1]))}\n")
    sys.stdout.writelines(f"{line}\n" for line in table(kills))
    return 1 if any(kill.violations for kill in kills) else 0


def _recorded(file: Path | None) -> list[Kill]:
    lines = file.read_text().splitlines() if file and file.exists() else ()
    rows = map(json.loads, lines)
    return [Kill(**{**row, "violations": tuple(row["violations"])}) for row in rows]


if __name__ == "__main__":
    sys.exit(main())
