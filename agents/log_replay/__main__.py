"""`python -m agents.log_replay`: a helper that replays the primitives of a log in a worker.

It serves a LogReplays. The worker is started as those of runs are, with the default launch settings
but for the threads.
"""

from __future__ import annotations

import os
import sys

from agents.host.facts import cpu_device
from agents.host.launch import launch_of
from agents.host.tools import read_host_tools
from controller.contracts.catalog import load_catalog
from controller.contracts.manifests import defaults_of
from controller.contracts.replay import LogReplayed, LogReplays
from controller.platform.helper import Helper
from controller.platform.helper_main import Replies, serve
from controller.platform.programs import python_module


def handle(wanted: LogReplays, replies: Replies) -> None:
    """Answer with what the worker answers."""
    knobs = {**defaults_of(load_catalog().launch["cpu_host"].knobs), "threads": wanted.threads}
    launch = launch_of(os.environ, knobs, cpu_device("here", {}), read_host_tools())
    worker = Helper(
        (*launch.prefix, *python_module("agents.log_replay.worker")),
        "replay the primitives of a log",
        environ=launch.environ,
        on_progress=replies.progress,
    )
    replies.answer(worker.ask(wanted, LogReplayed))


if __name__ == "__main__":
    sys.exit(serve(LogReplays, handle))
