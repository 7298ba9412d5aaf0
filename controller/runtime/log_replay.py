"""Replays of a log's primitives, in a process of the agents' side."""

from __future__ import annotations

from controller.contracts.replay import LogReplayed, LogReplays
from controller.platform.helper import Helper
from controller.platform.programs import python_module


def run_log_replays(wanted: LogReplays) -> LogReplayed:
    """Run the kernels on this host; raises UserError if that fails."""
    helper = Helper(python_module("agents.log_replay"), "replay the primitives of a log")
    return helper.ask(wanted, LogReplayed)
