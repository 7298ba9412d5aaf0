"""`python -m tests.support.profiled_lstm FOLDER`: steps of a tiny LSTM, watched as a worker does.

Writes trace.json and verbose.log.
"""

from __future__ import annotations

import sys
from pathlib import Path

from agents.backends.torch_eager.backend import TorchEager
from agents.profiling.capture import capture, enable_onednn_verbose
from models.language import LstmTraining
from tests.support.profiled_model import KNOBS


def main(folder: Path) -> None:
    """Train some steps."""
    workload = LstmTraining(
        layers=1,
        hidden_size=16,
        sequence_length=5,
        vocabulary_size=32,
        batch_size=2,
        optimizer="sgd",
        fused_optimizer=False,
        seed=0,
    )
    enable_onednn_verbose(folder / "verbose.log")
    capture(workload, TorchEager(KNOBS), KNOBS, folder, lambda _: None)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
