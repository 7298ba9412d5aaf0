"""`python -m tests.support.replay_kernels FOLDER`: do the replays.json there as a worker does.

Stack torch, fp32, plain layout. Writes verbose.log and replay-times.json.
"""

from __future__ import annotations

import sys
from pathlib import Path

from agents.backends.torch_eager.backend import TorchEager
from agents.profiling import replay
from agents.profiling.capture import enable_onednn_verbose
from controller.contracts.policy import load_policy
from tests.support.profiled_model import KNOBS


def main(folder: Path) -> None:
    """Replay."""
    log = folder / "verbose.log"
    enable_onednn_verbose(log)
    # The fewest calls: what is asked is whether they are the same.
    replay.run(TorchEager(KNOBS), folder, log, load_policy("ci"), longest_s=0.0)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
