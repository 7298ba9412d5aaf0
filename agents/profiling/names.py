"""Files that profiling workers read and write, in the folder of their part of an attempt."""

from __future__ import annotations

from controller.contracts.replay import REPLAY_LOG

TRACE = "trace.json"
LOG = REPLAY_LOG
"""oneDNN's log, with our marker lines in it."""
TASKS = "replays.json"
TIMES = "replay-times.json"
PEAKS = "peaks.json"
COUNTERS = "counters.json"
