"""Load of others, planted beside a measurement: real processes that use cores or bandwidth."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

CORES: Final = "while True: pass"
MEMORY: Final = """
import numpy
ones = numpy.ones(1 << 25)
copies = numpy.empty_like(ones)
while True:
    numpy.copyto(copies, ones)
"""
"""Copies 256 MiB time and again, far beyond a cache."""
LOADS: Final = ("none", "one_core", "all_cores", "memory")
LONGEST_S: Final = 20.0
"""Of a spell of random load, or of rest."""


def _programs(load: str) -> list[str]:
    cores = len(os.sched_getaffinity(0))
    of = {"none": [], "one_core": [CORES], "all_cores": [CORES] * cores, "memory": [MEMORY]}
    return of[load]


@contextmanager
def planted_load(load: str) -> Iterator[None]:
    """Keep one of LOADS up for as long as the block lasts."""
    processes = [subprocess.Popen([sys.executable, "-c", text]) for text in _programs(load)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


@contextmanager
def random_load(seed: int) -> Iterator[None]:
    """Plant one of LOADS after another, each for a random spell, for as long as the block lasts."""
    ended = threading.Event()
    chance = random.Random(seed)

    def disturb() -> None:
        while not ended.is_set():
            with planted_load(chance.choice(LOADS)):
                ended.wait(chance.uniform(0, LONGEST_S))

    thread = threading.Thread(target=disturb)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
