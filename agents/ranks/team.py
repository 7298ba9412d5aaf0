"""The worker's side of ranks: starts them, orders each step, and adds up what they say."""

from __future__ import annotations

import os
import selectors
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Final

from agents.host.disturbance import CpuWatch, objections
from agents.host.interfaces import LOOPBACK, interface_of
from agents.host.launch import LaunchedRank, launched_ranks
from agents.host.strain import own_cores
from agents.host.tools import read_host_tools
from agents.ranks.protocol import (
    PEER,
    RANK_MESSAGE,
    FarRankFigures,
    RankEnd,
    RankFigures,
    RankMessage,
    RankReady,
    RankStep,
)
from agents.ranks.step_shares import StepShares
from controller.contracts.errors import WorkerFault
from controller.contracts.policy import load_policy
from controller.contracts.result import Blame, Environment, Failure, Measurement
from controller.contracts.units import Unit
from controller.contracts.wire import HostShare, RankPlace, StepOrder, WorkerSpec
from controller.platform.memory import oom_kills
from controller.platform.programs import this_program

CAUSE_S: Final = 30.0
"""How long a host that has lost ranks of another one waits for the controller, which ends the run
with the failure of that host: longer than a lost host's lease."""
_OF_OTHERS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""Signals that another process sends."""
_END = StepOrder(steps=0)
_STEP = StepOrder(steps=1)


@dataclass(frozen=True, slots=True)
class Member:
    """A started rank."""

    process: subprocess.Popen[bytes]
    where: LaunchedRank

    def close(self) -> None:
        """Wait until it has ended, and close its pipes."""
        self.process.wait()  # before its input ends, at which it would kill its process group
        with suppress(BrokenPipeError), self.process:  # at an order that it never read
            pass

    def tell(self, line: str) -> None:
        """Write a line to its standard input; a rank that has ended is found by its output."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(line.encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            return

    def cpu_s(self) -> float:
        """Return the CPU seconds of all its threads; also of one that has ended, until `close`."""
        # The clock of another process: clock_getcpuclockid(3), which Python has for threads only.
        return time.clock_gettime((~self.process.pid << 3) | 2)

    def peak_memory_bytes(self) -> int:
        """Return its peak resident memory; 0 if it has ended."""
        try:
            lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        except OSError:
            return 0
        return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))


class Team:
    """Training by several ranks (see Stepping): each computes the gradients of its share of the
    batch, and all make the same step with their mean.

    Ranks on other hosts are the teams' there; each does as many steps by itself. A rank tells of
    theirs, so that every team knows what a step took on all hosts.

    That is one process's step, if the loss is a mean over the samples of a batch and the model has
    no statistics over a batch, such as batch normalisation has.
    """

    def __init__(
        self,
        spec: WorkerSpec,
        command: Sequence[str] | None = None,
        cause_s: float = CAUSE_S,
        watch: CpuWatch | None = None,
    ) -> None:
        """Place the ranks; raises WorkerFault if they can't be.

        command: of a rank; this process's own by default. cause_s: see CAUSE_S. watch: of the steps
        after the timed ones; a new one by default.
        """
        self._cause_s, self._share = cause_s, spec.job.share
        self._watch = watch or CpuWatch()
        self._spec, self.batch_size = spec, 0
        self._command = command or this_program()
        tools = read_host_tools(Path(sys.prefix))
        self._places = launched_ranks(spec.job.knobs, spec.device, tools)
        self._ranks = int(spec.job.knobs["ranks"])
        self._first = self._share.index * len(self._places) if self._share else 0
        self._members: list[Member] = []
        self._folder: Path | None = None
        self._oom_kills = oom_kills()
        self._shares = StepShares(_warm_up_of(spec), self._first)
        self._slowed: tuple[float, ...] = ()
        self._far: tuple[FarRankFigures, ...] = ()

    def start(self) -> None:
        """See Stepping.start; raises WorkerFault."""
        # Only this user may enter the folder, and so become one of the ranks.
        self._folder = Path(tempfile.mkdtemp(prefix="ranks-", dir=self._spec.artefact_dir))
        meeting_point = str(self._folder / "store")
        environ = os.environ | {"GLOO_SOCKET_IFNAME": _interface(self._share)}
        # With the knob thread_binding, OpenMP has pinned this thread to one core when torch was
        # imported. The ranks would inherit that, and numactl would refuse them other cores.
        os.sched_setaffinity(0, own_cores())
        for rank, where in enumerate(self._places, self._first):
            process = subprocess.Popen(
                (*where.prefix, *self._command),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=environ,
            )
            member = Member(process, where)
            self._members.append(member)
            place = RankPlace(
                rank=rank,
                ranks=self._ranks,
                meeting_point=meeting_point,
                local=len(self._places),
            )
            member.tell(self._spec.model_copy(update={"rank": place}).model_dump_json())
        ready = [said for said in self._hear() if isinstance(said, RankReady)]
        self.batch_size = ready[0].batch_size

    def load(self, number: int) -> None:
        """See Stepping.load: every rank has fetched its own share already."""

    def step(self) -> float:
        """See Stepping.step; returns when the slowest rank has. Raises WorkerFault."""
        own = [said for said in self._told(_STEP) if isinstance(said, RankStep)]
        self._far = own[0].elsewhere
        steps: Sequence[RankFigures] = [*self._far[: self._first], *own, *self._far[self._first :]]
        self._shares.add(steps)
        return statistics.fmean(step.loss for step in steps)

    def cpu_s(self) -> float:
        """See Stepping.cpu_s; with this process. That a rank has ended, the next step tells."""
        return time.process_time() + sum(member.cpu_s() for member in self._members)

    def peak_memory_bytes(self) -> int:
        """See Stepping.peak_memory_bytes: the sum over the ranks, each at its own moment."""
        far = sum(rank.peak_memory_bytes for rank in self._far)
        return sum(member.peak_memory_bytes() for member in self._members) + int(far)

    def environment(self) -> Environment:
        """See Stepping.environment: of the first rank, and of all; ends the ranks."""
        with self._watch.timing(self.cpu_s):  # until `_close`, which ends the ranks' clocks
            ends = [said for said in self._told(_END) if isinstance(said, RankEnd)]
        self._close()
        # The result is judged by its timed steps alone: steps that others slowed have no figure.
        if not objections(self._watch.timed, load_policy(str(self._spec.job.knobs["policy"]))):
            pairs = zip(ends[0].alone_s, ends[0].together_s, strict=True)
            self._slowed = tuple(alone_s / together_s for alone_s, together_s in pairs)
        return {
            **ends[0].environment,
            "affinity": tuple(sorted(core for place in self._places for core in place.cores)),
            "ranks": self._ranks,
            **_hosts(self._share),
            "rank_cores": tuple(" ".join(map(str, place.cores)) for place in self._places),
            "rank_compute_s": tuple(round(seconds, 6) for seconds in self._shares.computed_s),
            "all_reduce_share": round(self._shares.exchange, 4),
            "rank_imbalance": round(self._shares.imbalance, 4),
            **self._contention(),
        }

    def scaling(self) -> Mapping[str, Measurement]:
        """See Scaling.scaling: of this host's first rank, by what the slowest rank's step takes.

        The worker's order, fetching a batch and with_far_ranks are in the step time alone.
        """
        found = tuple(self._shares.own * slowed for slowed in self._slowed)
        return {"scaling_efficiency": Measurement.of_samples(found, Unit.FRACTION)} if found else {}

    def _contention(self) -> Environment:
        """Return the fact of what sharing the host costs; none if it was not measured."""
        if not self._slowed:
            return {}
        share = self._shares.own * (1 - statistics.median(self._slowed))
        return {"contention_share": round(share, 4)}

    def _told(self, order: StepOrder) -> Sequence[RankMessage]:
        for member in self._members:
            member.tell(order.model_dump_json())
        return self._hear()

    def _hear(self) -> Sequence[RankMessage]:
        """Return the next message of each rank.

        Raises WorkerFault if one has failed or ended, and ends the others.
        """
        try:
            return self._heard()
        except WorkerFault as fault:
            for member in self._members:
                member.process.kill()
            self._close()
            if self._share and fault.failure.kind == PEER:
                Event().wait(self._cause_s)  # the agent ends this process, if it is told the cause
            raise

    def _close(self) -> None:
        try:
            for member in self._members:
                member.close()
        finally:
            if self._folder:
                shutil.rmtree(self._folder)

    def _heard(self) -> Sequence[RankMessage]:
        heard: dict[int, RankMessage] = {}
        with selectors.DefaultSelector() as waiting:
            for rank, member in enumerate(self._members):
                assert member.process.stdout is not None
                waiting.register(member.process.stdout, selectors.EVENT_READ, rank)
            while waiting.get_map():
                for key, _ in waiting.select():
                    waiting.unregister(key.fileobj)
                    heard[key.data] = self._message_of(key.data)
                failures = [said for said in heard.values() if isinstance(said, Failure)]
                # One that has lost another tells of a failure that is still to be heard.
                causes = [failure for failure in failures if failure.kind != PEER]
                if causes or (failures and not waiting.get_map()):
                    raise WorkerFault((causes or failures)[0])
        return [heard[rank] for rank in range(len(self._members))]

    def _message_of(self, rank: int) -> RankMessage:
        """Return the message of a rank that has sent one or ended; raises WorkerFault."""
        stdout = self._members[rank].process.stdout
        if stdout and (line := stdout.readline()):
            return RANK_MESSAGE.validate_json(line)
        raise self._lost(rank)

    def _lost(self, rank: int) -> WorkerFault:
        """Return the failure of a rank that ended without a word."""
        code = self._members[rank].process.wait()
        starved = code == -signal.SIGKILL and oom_kills() > self._oom_kills
        return WorkerFault(lost_rank(f"rank {self._first + rank} of {self._ranks}", code, starved))


def _warm_up_of(spec: WorkerSpec) -> int:
    """Return the steps before those that are timed: none in batches, or of a scenario without."""
    knobs = spec.job.knobs
    warms_up = not spec.in_batches and "warmup_steps" in knobs
    return int(knobs["warmup_steps"]) if warms_up else 0


def _interface(share: HostShare | None) -> str:
    """Return the network interface over which ranks talk; raises WorkerFault."""
    if share is None:
        return LOOPBACK
    own = share.hosts[share.index].address
    if name := interface_of(own):
        return name
    message = f"ranks cannot reach other hosts: no network interface has the address {own!r}"
    raise WorkerFault(Failure(blame=Blame.HARNESS, kind="rendezvous", message=message))


def _hosts(share: HostShare | None) -> Environment:
    """Return the facts of which hosts trained together, the lead first."""
    if share is None:
        return {}
    names, ids = (host.name for host in share.hosts), (host.device_id for host in share.hosts)
    return {"hosts": tuple(names), "host_devices": tuple(ids)}


def lost_rank(name: str, code: int, starved: bool) -> Failure:
    """Return the failure of a rank from its return code, as Popen has it.

    starved: whether the kernel's OOM killer has killed a process of its control group.
    """
    blame, kind, how = Blame.WORKLOAD, "exit", f"with exit status {code}"
    if starved:
        kind = "out_of_memory"
        how = "because the host, or its control group, ran out of memory. Make the run smaller"
    elif code < 0:
        kind, how = "signal", f"with {signal.Signals(-code).name}"
        if -code in _OF_OTHERS:
            blame = Blame.HARNESS
    return Failure(
        blame=blame,
        kind=kind,
        message=f"{name} ended {how}",
        signal=-code if code < 0 else None,
        exit_code=code if code >= 0 else None,
    )
