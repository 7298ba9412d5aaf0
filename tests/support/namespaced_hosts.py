"""Hosts for tests: network, PID, mount and host-name namespaces on a switch of their own.

Each has its own address, processes, /tmp, /dev/shm, /run, /root and machine id; the rest of the
file system is this machine's. All of it is anonymous: it goes with the process that made it,
whatever ends that, and the machine's own network is not touched. Needs root.
"""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from agents.inference.content import cache_folder
from tests.support.processes import is_dead
from tests.support.waiting import COMMAND_S, eventually

REPOSITORY = Path(__file__).resolve().parents[2]
HOME = Path("/root")
"""What a host's users keep: a tmpfs of limited size, the host's disk."""
DISK_BYTES = 2 << 30
BUILDS = cache_folder()
"""Bundles take minutes to build: this machine's are the hosts', too."""
NO_MORE: Mapping[str, str] = {}
_STOPPED = (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE)
_SWITCH = "ip link add br0 type bridge && ip link set br0 up && echo ready && read -r _"
_HOST = r"""
set -e
name=$1 stage=$2 disk=$3; shift 3
hide() {  # a directory gets a file system of its own; what is kept of it is put back
  mount -n -t tmpfs -o "size=$2,mode=$3" tmpfs "$stage"
  for kept in "${@:4}"; do
    [[ $kept == "$1"/* ]] || continue
    mkdir -p "$stage${kept#"$1"}"
    mount -n --rbind "$kept" "$stage${kept#"$1"}"
  done
  mount -n --move "$stage" "$1"
}
mount -n -t proc proc /proc
[[ ! -e /etc/machine-id ]] || mount -n --bind "$stage.machine-id" /etc/machine-id
hide /run 64m 755
mkdir -m 1777 /run/lock  # its cores are no other host's
hide /dev/shm 1g 1777
hide /root "$disk" 700 "$@"
hide /tmp 2g 1777 "$@"
hostname "$name"
ip link set lo up
echo ready
read -r _  # until the test has ended or closes this; bash reaps orphans meanwhile
"""


@functools.cache
def _why_not() -> str:
    """Return why this process can't make hosts; "" if it can."""
    if os.geteuid() != 0:
        return "namespaced hosts need root"
    trial = f"{_SWITCH.partition(' && echo')[0]} && mount -t tmpfs tmpfs /mnt"
    command = ["unshare", "--net", "--mount", "--uts", "--pid", "--fork", "bash", "-c", trial]
    done = subprocess.run(command, capture_output=True, text=True)
    return f"namespaced hosts can't be made here: {done.stderr.strip()}" if done.returncode else ""


@dataclass(slots=True)
class Program:
    """A command that runs on a host; its output is in a file."""

    entrance: subprocess.Popen[bytes]
    """Outside the host; ends when the command does, with its status."""
    log: Path

    def signal(self, number: signal.Signals) -> None:
        """Signal the command itself."""
        (inside,) = psutil.Process(self.entrance.pid).children()
        inside.send_signal(number)

    def wait(self, timeout_s: float = COMMAND_S) -> int:
        """Return the command's exit status; raises subprocess.TimeoutExpired."""
        return self.entrance.wait(timeout_s)


@dataclass(slots=True)
class Host:
    """A running host."""

    name: str
    address: str
    folder: Path
    """Outside: logs of what it runs."""
    init: psutil.Process
    """Process 1 of the host, as it is known outside."""
    _switch_pid: int
    _programs: list[Program] = field(default_factory=list)

    def run(self, command: Sequence[str], **environment: str) -> subprocess.CompletedProcess[str]:
        """Run a command to its end; the caller looks at its status."""
        return subprocess.run(
            [*self._enter(), *command],
            env=self.environment(environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=COMMAND_S,
        )

    def start(self, command: Sequence[str], **environment: str) -> Program:
        """Start a command; it ends with the host at the latest."""
        log = self.folder / f"{self.name}-{len(self._programs)}.log"
        with log.open("wb") as output:
            entrance = subprocess.Popen(
                [*self._enter(), *command],
                env=self.environment(environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self._programs.append(Program(entrance, log))
        return self._programs[-1]

    def path(self, inside: Path | str) -> Path:
        """Return how a file of the host is reached from outside."""
        return Path(f"/proc/{self.init.pid}/root") / str(inside).lstrip("/")

    @property
    def pid_namespace(self) -> Path:
        """What tells this host's processes from others."""
        return pid_namespace(self.init.pid)

    def processes(self, word: str = "") -> list[psutil.Process]:
        """Return the host's live processes whose command line contains a word."""
        space = self.pid_namespace
        return [p for p in psutil.process_iter() if _is_in(space, p) and word in _words(p)]

    def kill(self) -> None:
        """End everything on the host at once, as a power cut does."""
        self.init.kill()
        _signal(self._entrances(), signal.SIGCONT)
        for program in self._programs:
            program.wait()
        # The kernel ends a namespace's init last, when nothing else is left in it.
        eventually(lambda: is_dead(self.init), "the host's end")

    def cut_power(self) -> None:
        """End all it runs at once, and no packet leaves to tell; its disk stays as it is.

        Its link is still to be restored.
        """
        self.cut_link()
        while programs := [p for p in self.processes() if p.pid != self.init.pid]:
            _signal(programs, signal.SIGKILL)

    def freeze(self) -> None:
        """Stop every process of the host; nothing of it answers, and no connection is closed."""
        while running := [p for p in self._everything() if _state(p) not in _STOPPED]:
            _signal(running, signal.SIGSTOP)

    def thaw(self, word: str = "") -> None:
        """Let everything go on, or only what has a word in its command line."""
        while stopped := [
            p
            for p in (self.processes(word) if word else self._everything())
            if _state(p) == psutil.STATUS_STOPPED
        ]:
            _signal(stopped, signal.SIGCONT)

    def _everything(self) -> list[psutil.Process]:
        return [*self.processes(), *self._entrances()]

    def _entrances(self) -> list[psutil.Process]:
        """Return what waits outside for the host's programs; it stops when they do."""
        running = (p.entrance for p in self._programs if p.entrance.poll() is None)
        return [psutil.Process(entrance.pid) for entrance in running]

    def cut_link(self) -> None:
        """Pull the host's cable: packets vanish, and nobody is told."""
        _ip_in(self._switch_pid, "link", "set", self.name, "down")

    def restore_link(self) -> None:
        """Plug the cable in again."""
        _ip_in(self._switch_pid, "link", "set", self.name, "up")

    def fill_disk(self) -> Path:
        """Leave no room on the host's disk; return the file that takes it, to be removed."""
        filler = HOME / "filler"
        said = self.run(["dd", "if=/dev/zero", f"of={filler}", "bs=1M"])
        assert "No space left" in said.stderr, said.stderr
        return self.path(filler)

    def _enter(self) -> list[str]:
        """Return a prefix that moves a command into the host."""
        entrance = ("--target", str(self.init.pid), "--net", "--pid", "--mount", "--uts")
        return ["nsenter", *entrance, f"--wd={HOME}"]

    def environment(self, more: Mapping[str, str] = NO_MORE) -> dict[str, str]:
        """Return the environment of what is run on the host, with some more variables."""
        bare = {k: v for k, v in os.environ.items() if not k.startswith(("RAY_", "BENCHFARM_"))}
        programs = f"{Path(sys.executable).parent}:{os.environ.get('PATH', os.defpath)}"
        return {**bare, "HOME": str(HOME), "PATH": programs, "TMPDIR": "/tmp", **more}


@dataclass(slots=True)
class Lab:
    """A switch, and the hosts on it."""

    folder: Path
    _switch_pid: int
    _hosts: int = 0

    @contextmanager
    def host(self, name: str, disk_bytes: int = DISK_BYTES) -> Iterator[Host]:
        """Give a new host on the switch; everything on it ends with the context.

        name: at most 15 characters, which are its cable's name, too.
        """
        self._hosts += 1
        number = f"{self._hosts}"
        address = f"10.77.0.{number}"
        stage = self.folder / f"stage-{number}"
        stage.mkdir()
        Path(f"{stage}.machine-id").write_text(f"{uuid.uuid4().hex}\n")
        kept = [str(p) for p in (REPOSITORY, sys.prefix, sys.base_prefix, self.folder)]
        if BUILDS.exists():
            kept.append(str(BUILDS))
        script = ("bash", "-c", _HOST, "host", name, str(stage), str(disk_bytes), *kept)
        spaces = ("--net", "--mount", "--uts", "--pid", "--fork", "--kill-child")
        with _held([*spaces, *script]) as holder:
            (init,) = psutil.Process(holder.pid).children()
            cable = ("link", "add", name, "type", "veth", "peer", "name", "eth0")
            _ip_in(self._switch_pid, *cable, "netns", str(init.pid))
            _ip_in(self._switch_pid, "link", "set", name, "master", "br0", "up")
            _ip_in(init.pid, "addr", "add", f"{address}/24", "dev", "eth0")
            _ip_in(init.pid, "link", "set", "eth0", "up")
            host = Host(name, address, self.folder, init, self._switch_pid)
            try:
                yield host
            finally:
                if not is_dead(init):
                    host.kill()


@contextmanager
def lab(folder: Path) -> Iterator[Lab]:
    """Give a switch for hosts; skips the test where there can be none."""
    if why := _why_not():
        pytest.skip(why)
    with _held(["--net", "bash", "-c", _SWITCH]) as switch:
        yield Lab(folder, switch.pid)


@contextmanager
def _held(unshare: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
    """Run what holds namespaces, which ends when its standard input does."""
    pipe = subprocess.PIPE
    command = ["unshare", *unshare]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as holder:
        assert holder.stdin
        assert holder.stdout
        assert holder.stderr
        if holder.stdout.readline() != "ready\n":
            raise OSError(holder.stderr.read())
        try:
            yield holder
        finally:
            holder.stdin.close()


def pid_namespace(pid: int) -> Path:
    """Return which namespace a process is in; raises OSError if it has ended."""
    return Path(f"/proc/{pid}/ns/pid").readlink()


def _ip_in(pid: int, *arguments: str) -> None:
    """Call ip(8) in the network of a process."""
    command = ["nsenter", f"--target={pid}", "--net", "ip", *arguments]
    subprocess.run(command, check=True, capture_output=True)


def _is_in(space: Path, process: psutil.Process) -> bool:
    try:
        return pid_namespace(process.pid) == space and not is_dead(process)
    except OSError:  # ended meanwhile
        return False


def _words(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return ""


def _state(process: psutil.Process) -> str:
    try:
        return process.status()
    except psutil.NoSuchProcess:
        return psutil.STATUS_ZOMBIE


def _signal(processes: Sequence[psutil.Process], number: signal.Signals) -> None:
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(number)
