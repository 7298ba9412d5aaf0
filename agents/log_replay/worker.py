"""`python -m agents.log_replay.worker`: a helper that runs kernels alone, launched for it.

It serves a LogReplays.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import psutil
import torch

from agents.host.cpu_watch import CpuWatch
from agents.host.disturbance import objections
from agents.profiling.capture import enable_onednn_verbose, flush
from agents.profiling.replay import LEAST_RUNS, LONGEST_S, kernel_call, replayed
from controller.contracts.policy import load_policy
from controller.contracts.replay import REPLAY_LOG, KernelReplay, LogReplayed, LogReplays, Replayed
from controller.platform.helper_main import Replies, serve
from controller.platform.memory import available_bytes
from controller.stats.order_statistics import samples_outside

POLICY: Final = "ci"
COPIES: Final = 6
"""Most copies of a kernel's tensors at a time: as made, as laid out by oneDNN, and gradients."""


def handle(wanted: LogReplays, replies: Replies) -> None:
    """Run all kernels, those that come first surely."""
    limit_memory()
    enable_onednn_verbose(Path(wanted.folder) / REPLAY_LOG)
    samples_outside(LEAST_RUNS)  # loads SciPy before anything is timed
    watch = CpuWatch()
    with watch.timing():
        done = tuple(replay_all(wanted, replies))
    flush()
    disturbed = objections(watch.timed, load_policy(POLICY))
    replies.answer(LogReplayed(replayed=done, disturbed=disturbed, threads=torch.get_num_threads()))


def limit_memory() -> None:
    """Have an allocation fail that there is no memory for, and no process be killed for it."""
    room = psutil.Process().memory_info().vms + available_bytes()
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    limit = room if hard == resource.RLIM_INFINITY else min(room, hard)
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))


def replay_all(wanted: LogReplays, replies: Replies) -> Iterator[Replayed]:
    """Yield the result of each task, of all rounds; those too large for the memory, or too late for
    even one round, are refused."""
    ends = time.monotonic() + wanted.time_limit_s
    numbered = list(enumerate(wanted.tasks))
    order = [one for n in range(wanted.rounds) for one in numbered[:: -1 if n % 2 else 1]]
    # Half of the limit is for what comes before the timed calls, and for the fewest of these.
    longest_s = min(LONGEST_S, wanted.time_limit_s / 2 / max(1, len(order)))
    if wanted.rounds > 1:
        longest_s = 0.0  # as many calls in each round, so that each counts as much
    found: list[list[Replayed]] = [[] for _ in wanted.tasks]
    for done, (number, task) in enumerate(order):
        if done and done % 20 == 0:
            replies.progress(f"{done} of {len(order)} replays were made")
        found[number].append(_replay(number, task, ends - time.monotonic(), longest_s, wanted))
    yield from map(_joined, found)


def _replay(
    number: int, task: KernelReplay, left_s: float, longest_s: float, wanted: LogReplays
) -> Replayed:
    if left_s < 0:
        limit = f"the time limit of {wanted.time_limit_s:g} s had passed"
        return Replayed(key=task.key, refused=limit)
    available = available_bytes()
    if task.bytes * COPIES > available:
        return Replayed(key=task.key, refused=too_large(task.bytes, available))
    return replayed(number, task.key, partial(kernel_call, task), longest_s)


def _joined(rounds: Sequence[Replayed]) -> Replayed:
    """Return the results of a task in one: a refusal counts if it never ran."""
    samples = tuple(seconds for one in rounds for seconds in one.samples)
    return Replayed(
        key=rounds[0].key, samples=samples, refused=None if samples else rounds[0].refused
    )


def too_large(size: float, available: float) -> str:
    """Return why tensors of so many bytes are not replayed with so many bytes of memory."""
    needed, free = size * COPIES / 2**30, available / 2**30
    return f"it may take {needed:.3g} GiB of memory, and {free:.3g} are available"


if __name__ == "__main__":
    sys.exit(serve(LogReplays, handle))
