"""The wall clock of a namespaced host, set for all of its processes while they run."""

from __future__ import annotations

import shutil
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.namespaced_hosts import HOME, Host

_SOURCE = Path(__file__).with_suffix(".cc")
_OFFSET = HOME / "clock-offset"
_PRELOAD = f"""
set -e
cp -a /etc {HOME}/etc
echo "$1" > {HOME}/etc/ld.so.preload
mount -n --bind {HOME}/etc /etc
"""


def build_shim(folder: Path, offset: Path = _OFFSET) -> Path:
    """Compile what stands between programs and their clock; skips the test without a compiler.

    offset: the file of eight bytes that says how far ahead it is, a double.
    """
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("a wall clock can't be set for one host without g++")
    shim = folder / "wall_clock.so"
    options = ("-shared", "-fPIC", "-O2", "-Wall", f'-DOFFSET_FILE="{offset}"')
    subprocess.run([compiler, *options, str(_SOURCE), "-o", str(shim), "-ldl"], check=True)
    return shim


@dataclass(frozen=True, slots=True)
class WallClock:
    """A host's, which is as its kernel's until it is stepped."""

    host: Host

    @classmethod
    def of(cls, host: Host, shim: Path) -> WallClock:
        """Give a host one; what it started before keeps the kernel's."""
        clock = cls(host)
        clock._say(0.0)
        done = host.run(["bash", "-c", _PRELOAD, "preload", str(shim)])
        assert done.returncode == 0, done.stderr
        return clock

    def step(self, seconds: float) -> None:
        """Set the clock so much later, or earlier, than it is."""
        file = self.host.path(_OFFSET)
        (ahead_s,) = struct.unpack("d", file.read_bytes())
        with file.open("r+b") as kept:  # in place: it is mapped
            kept.write(struct.pack("d", ahead_s + seconds))

    def _say(self, ahead_s: float) -> None:
        self.host.path(_OFFSET).write_bytes(struct.pack("d", ahead_s))

    def now(self) -> float:
        """Return what a program on the host takes for the time."""
        return float(self.host.run(["date", "+%s.%N"]).stdout)
