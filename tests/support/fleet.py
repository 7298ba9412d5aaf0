"""A farm on namespaced hosts: a head, and hosts that join it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from controller.contracts.run import Run
from controller.platform.atomic import write_private
from controller.runtime.home import Home
from controller.runtime.watch import runs_of
from controller.store.sqlite import SqliteStore
from tests.support.forked_cli import forked
from tests.support.namespaced_hosts import Host, Program
from tests.support.processes import give_way
from tests.support.waiting import eventually

BENCHFARM = str(Path(sys.executable).with_name("benchfarm"))
HOME = Path("/root/.benchfarm")


@dataclass(frozen=True, slots=True)
class Fleet:
    """The farm of a head that other hosts may join."""

    head: Host
    home: Home
    """Under a path that is the same on the head and outside: SQLite resolves what /proc shows."""

    @classmethod
    def of(cls, head: Host) -> Fleet:
        """Give a host its home, in which a farm is to be brought up."""
        home = Home(head.folder / f"{head.name}-home")
        home.path.mkdir(mode=0o700)
        head.path(HOME).symlink_to(home.path)
        return cls(head, home)

    def cli(self, *arguments: str) -> str:
        """Run benchfarm on the head, as installed if it starts or ends a farm; it is to succeed."""
        said = self.called(*arguments)
        assert said.returncode == 0, said.stderr
        return said.stdout

    def called(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run benchfarm on the head."""
        if arguments[0] in ("up", "down"):
            return self.head.run([BENCHFARM, *arguments])
        done = forked(arguments, self.head.environment(), host=self.head.init.pid)
        out, err = done.stdout.decode(), done.stderr.decode()
        return subprocess.CompletedProcess(done.args, done.returncode, out, err)

    def join(self, host: Host, *options: str, **environment: str) -> Program:
        """Start an agent on a host; it joins in its own time."""
        write_private(host.path("/root/token"), self.home.ray_token.read_text())
        join = ("agent", "start", "--head", self.head.address, "--token-file", "/root/token")
        return host.start([BENCHFARM, *join, *options], **environment)

    def device_of(self, host: Host) -> str | None:
        """Return the id of a host as a device, if it is there now."""
        with closing(SqliteStore.open_reader(self.home.store)) as store:
            agents, devices = store.fleet()
        names = {known.agent.id: known.agent.host for known in agents}
        there = (d for d in devices if d.online and names[d.agent_id] == host.name)
        return next((d.device.id for d in there), None)

    def ahead_s(self, host: Host) -> float | None:
        """Return how far the controller takes a host's clock to be ahead of its own."""
        with closing(SqliteStore.open_reader(self.home.store)) as store:
            (known,) = (a for a in store.fleet()[0] if a.agent.host == host.name)
        return known.clock_ahead_s

    def submit(self, sweep: Mapping[str, object], *options: str) -> str:
        """Submit a sweep and return its id."""
        self.head.path("/root/sweep.json").write_text(json.dumps(sweep))
        return self.cli("sweep", "submit", "/root/sweep.json", *options).split()[1].rstrip(":")

    def runs(self, sweep_id: str) -> list[Run]:
        return runs_of(self.home, sweep_id)

    def holder(self, sweep_id: str) -> str | None:
        """Return the device that has the sweep's one run now."""
        (run,) = self.runs(sweep_id)
        return run.lease.device_id if run.lease else None


@contextmanager
def fleet_up(head: Host, *options: str) -> Iterator[Fleet]:
    """Bring a farm up on a host, at which others can join."""
    fleet = Fleet.of(head)
    fleet.cli("up", "--listen", head.address, *options)
    yield fleet


def let_wait(host: Host) -> None:
    """Wait for a host's worker, which measures endlessly, and leave the machine to others.

    What is shown is that its run is leased, not how fast it is.
    """
    for worker in eventually(lambda: host.processes("agents.worker"), "its worker runs"):
        give_way(worker)
