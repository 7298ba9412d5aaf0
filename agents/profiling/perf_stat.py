"""Top-down shares of this process by perf stat, for chosen moments.

Each session is a perf process that attaches to all threads of this one, and counts only while it is
enabled (`--control`, from perf 5.10 on). Whether perf can count here is found by trying.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from controller.contracts.topdown import TopDown
from controller.platform.programs import python_code
from controller.profiles.errors import ProfileUnreadable
from controller.profiles.topdown import topdown_in

FORMS: Final = (
    ("--topdown", "--td-level=2", "--no-metric-only"),
    ("--topdown", "--no-metric-only"),
    ("--topdown",),
    ("-M", "TopdownL1,TopdownL2"),
    ("-M", "TopdownL1"),
    ("-M", "PipelineL1,PipelineL2"),
    ("-e", "{slots,topdown-retiring,topdown-bad-spec,topdown-fe-bound,topdown-be-bound}"),
)
"""How releases of perf are asked for top-down shares: Intel's, then AMD's from Zen 4 on."""
PARANOID: Final = Path("/proc/sys/kernel/perf_event_paranoid")
DEVICES: Final = Path("/sys/bus/event_source/devices")
CORE_PMUS: Final = ("cpu", "cpu_*", "armv8_*")
"""Names of the counters of cores, among all sources of events."""
_REFUSED: Final = ("perf_event_paranoid", "no permission", "not permitted", "permission denied")
_BUSY: Final = "sum(range(10**6))"
PROBE_S: Final = 20.0
END_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class Perf:
    """A perf that can count top-down shares here, and how it is asked."""

    program: str
    form: tuple[str, ...]

    @property
    def told(self) -> str:
        """Its command, for people."""
        return f"perf stat {' '.join(self.form)}"


def probe(
    path: str | None = None, paranoid: Path = PARANOID, devices: Path = DEVICES
) -> Perf | str:
    """Return a perf that counts, or why none does.

    path: where programs are looked for; by default, PATH.
    """
    program = shutil.which("perf", path=path)
    if program is None:
        return why_not("", paranoid, devices, missing=True)
    refused = []
    for form in FORMS:
        perf = Perf(program, form)
        found = _try(perf)
        if isinstance(found, TopDown):
            return perf
        refused.append(found)
    return why_not("\n".join(refused), paranoid, devices)


def why_not(printed: str, paranoid: Path, devices: Path, *, missing: bool = False) -> str:
    """Return why perf does not count. printed: what it said, of all tries."""
    if not any(True for name in CORE_PMUS for _ in devices.glob(name)):
        return (
            "the kernel has no counters of this CPU (no PMU), as in most virtual machines"
            f"{'; perf is not installed either' if missing else ''}"
        )
    if missing:
        return "perf is not installed; the CPU has counters"
    if any(word in printed.lower() for word in _REFUSED):
        return (
            f"the kernel refuses counters to this user: perf_event_paranoid is {_level(paranoid)}"
        )
    said = next((line.strip() for line in printed.splitlines() if line.strip()), "nothing")
    return f"perf counts no top-down shares on this CPU; it said: {said[:160]}"


def _level(paranoid: Path) -> str:
    try:
        return paranoid.read_text().strip()
    except OSError:
        return "not known"


def _try(perf: Perf) -> TopDown | str:
    """Count a short program; return its shares, or what perf said."""
    with tempfile.TemporaryDirectory(prefix="benchfarm-perf-") as folder:
        out = Path(folder) / "counted.csv"
        command = (*_command(perf, out), "--", *python_code(_BUSY))
        try:
            done = subprocess.run(
                command, env=_environ(), capture_output=True, timeout=PROBE_S, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
        return _counted(perf, out, done.stderr.decode(errors="replace"))


def _counted(perf: Perf, out: Path, said: str) -> TopDown | str:
    try:
        return topdown_in(out.read_bytes(), "perf's output", perf.told)
    except OSError:
        return said
    except ProfileUnreadable as error:
        return said.strip() or str(error.seen)


def _command(perf: Perf, out: Path) -> tuple[str, ...]:
    return (perf.program, "stat", "-x,", *perf.form, "-o", str(out))


def _environ() -> dict[str, str]:
    return {**os.environ, "LC_ALL": "C"}  # perf writes decimals as the locale does


class PerfSession:
    """A perf process attached to this one that counts only between `enable` and `disable`.

    Raises OSError if perf can't be started, or has ended.
    """

    def __init__(self, perf: Perf, out: Path) -> None:
        self._perf, self._out = perf, out
        hears, self._says = os.pipe()
        self._acknowledged, answers = os.pipe()
        control = ("-D", "-1", "--control", f"fd:{hears},{answers}", "-p", str(os.getpid()))
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - perf's, closed in `end`
        try:
            self._process = subprocess.Popen(
                (*_command(perf, out), *control),
                env=_environ(),
                stdin=subprocess.DEVNULL,
                stdout=self._said,
                stderr=self._said,
                pass_fds=(hears, answers),
            )
        except OSError:
            os.close(self._says)
            os.close(self._acknowledged)
            self._said.close()
            raise
        finally:
            os.close(hears)
            os.close(answers)

    def enable(self) -> None:
        """Count from now on; returns once perf does."""
        self._order(b"enable\n")

    def disable(self) -> None:
        """Stop counting; returns once perf has."""
        self._order(b"disable\n")

    def _order(self, order: bytes) -> None:
        os.write(self._says, order)
        if not os.read(self._acknowledged, 64):
            raise BrokenPipeError("perf has ended")

    def end(self) -> TopDown | str:
        """End perf; return the shares, or what it said."""
        self._process.send_signal(signal.SIGINT)  # perf then prints
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._says)
        os.close(self._acknowledged)
        self._said.seek(0)
        said = self._said.read().decode(errors="replace")
        self._said.close()
        return _counted(self._perf, self._out, said)


class PerfPhases:
    """A session for each phase, of which one counts at a time; a `Mark` for phases."""

    def __init__(self) -> None:
        self.sessions: dict[str, PerfSession] = {}
        self._phase = ""

    def enter(self, phase: str) -> None:
        """Count in another phase; empty: in none. Raises OSError if perf has ended."""
        if phase == self._phase:
            return
        left, self._phase = self.sessions.get(self._phase), phase
        if left:
            left.disable()
        if session := self.sessions.get(phase):
            session.enable()


@contextmanager
def counted_by(
    perf: Perf, phases: Sequence[str], folder: Path
) -> Iterator[tuple[PerfPhases, dict[str, TopDown | str]]]:
    """Count in each phase during this context; then the dict has shares, or what perf said.

    Raises OSError if perf can't be started.
    """
    sessions, found = PerfPhases(), dict[str, TopDown | str]()
    try:
        for phase in phases:
            sessions.sessions[phase] = PerfSession(perf, folder / f"topdown-{phase}.csv")
        yield sessions, found
        sessions.enter("")
    finally:
        for phase, session in sessions.sessions.items():
            found[phase] = session.end()
