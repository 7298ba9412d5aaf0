"""`python -m agents.pairing.load SEED`: load a core at random until standard input closes.

Busy and idle times are log-uniform from 1 to 300 ms: some bursts are shorter than a batch, others
span whole pairs, so that the load is neither steady nor averages out.
"""

from __future__ import annotations

import math
import os
import random
import sys
import threading
import time

from controller.platform.interrupted import quietly_interrupted

SHORTEST_S, LONGEST_S = 1e-3, 0.3


def main() -> None:
    """Compute and sleep alternately; ends with the process that started it."""
    threading.Thread(target=_end_with_stdin, daemon=True).start()
    generator = random.Random(sys.argv[1])
    while True:
        until = time.perf_counter() + _duration(generator)
        while time.perf_counter() < until:
            pass
        time.sleep(_duration(generator))


def _duration(generator: random.Random) -> float:
    return math.exp(generator.uniform(math.log(SHORTEST_S), math.log(LONGEST_S)))


def _end_with_stdin() -> None:
    while os.read(0, 4096):
        pass
    os._exit(0)


if __name__ == "__main__":
    with quietly_interrupted():
        main()
