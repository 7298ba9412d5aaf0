"""The real sampler on fake trees of /sys and /proc: its `sleep` waits for the test instead."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO

from agents.energy.readings import Reading, readings_of
from agents.inference.runner.sampler import SCRIPT

UPTIME_S = 1000.0
"""Of the fake device at the first query."""
Files = Mapping[str, str]
"""What files say, by their paths below the fake /sys."""
_WAITS = "sleep() { echo asleep; read -r go || exit 0; }\ndumpsys() { :; }\nsleep\n"


def sampled(
    folder: Path, tree: Callable[[float], Files], moments: Iterable[float]
) -> list[Reading]:
    """Return what the sampler reads at each moment of a tree that changes with the time."""
    told: list[str] = []
    with subprocess.Popen(
        ["sh", "-c", _WAITS + SCRIPT, "sampler", "1", str(folder), str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        assert process.stdin
        assert process.stdout
        told += _round(process.stdout)
        for at_s in moments:
            write_files(folder, {"uptime": f"{UPTIME_S + at_s:.2f} 1", **tree(at_s)})
            process.stdin.write(b"go\n")
            process.stdin.flush()
            told += _round(process.stdout)
    return readings_of("".join(told), UPTIME_S)


def _round(stdout: IO[bytes]) -> Iterator[str]:
    """Yield what is said until the sampler sleeps."""
    while (line := stdout.readline()) != b"asleep\n":
        assert line, "the sampler has ended"
        yield line.decode(errors="replace")


def write_files(folder: Path, files: Files) -> None:
    """Write files of a fake tree, each with one line break at its end."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
