"""A watched step by hand: a trace and a verbose log of the same run, as the workers write them.

A model of a body and a head. The head, `cls_logits`, is one convolution in oneDNN that takes most
of the step, as in a detector; beside it are an op outside oneDNN, time in no op, and a batch that
is loaded before the timed part.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from controller.profiles.capturing import Captured
from controller.profiles.marks import MODULE, PHASE, STEP

HEAD, BODY = "head.cls_logits", "body.0"
BASE_S = 1_795_253_000
CONVOLUTION = (
    "cpu,convolution,brg_conv_fwd:avx512_core,forward_training,src:f32::blocked:acdb::f0 "
    "wei:f32::blocked:Acdb16a::f0 bia:undef::undef::: dst:f32::blocked:acdb::f0,,"
    "alg:convolution_direct,mb1_ic16oc16_ih64oh64kh3sh1dh0ph1_iw64ow64kw3sw1dw0pw1"
)
REORDER = (
    "cpu,reorder,jit:uni,undef,src:f32::blocked:abcd::f0 dst:f32::blocked:acdb::f0,,,1x16x64x64"
)
STEP_S = 0.3
"""What a step takes in its timed part, unwatched."""
LOAD_S = 0.2
CONVOLUTION_S, REORDER_S, RELU_S, PYTHON_S = 0.223, 0.007, 0.05, 0.02


@dataclass
class Watched:
    """Writes a run of some steps, each this many times slower than the plain one."""

    slower: tuple[float, ...]
    verbose: bool
    relu_s: float = RELU_S

    def write(self, folder: Path) -> Path:
        """Write trace.json, and verbose.log if it is a verbose run."""
        self._events: list[dict[str, object]] = []
        self._log: list[str] = []
        now = 1.0
        for number, slower in enumerate(self.slower):
            now = self._step(number, now, slower) + 0.001
        folder.mkdir(parents=True, exist_ok=True)
        trace = folder / "trace.json"
        document = {"baseTimeNanoseconds": BASE_S * 10**9, "traceEvents": self._events}
        trace.write_text(json.dumps(document))
        if self.verbose:
            (folder / "verbose.log").write_text("".join(self._log))
        return trace

    def _step(self, number: int, start: float, slower: float) -> float:
        total = LOAD_S + STEP_S * slower
        self._event("user_annotation", f"{STEP}{number}", start, total)
        self._event("user_annotation", f"{PHASE}load", start, LOAD_S)
        self._event("cpu_op", "aten::randn", start, LOAD_S)
        now = start + LOAD_S
        self._event("user_annotation", f"{PHASE}forward", now, STEP_S * slower)
        convolving = (CONVOLUTION_S + REORDER_S) * slower
        self._event("user_annotation", f"{MODULE}{HEAD}", now, convolving)
        self._event("cpu_op", "aten::conv2d", now, convolving)
        self._event("cpu_op", "aten::mkldnn_convolution", now, convolving)
        self._primitive(REORDER, now, REORDER_S * slower)
        self._primitive(CONVOLUTION, now + REORDER_S * slower, CONVOLUTION_S * slower)
        now += convolving
        self._event("user_annotation", f"{MODULE}{BODY}", now, self.relu_s * slower)
        self._event("cpu_op", "aten::relu", now, self.relu_s * slower)
        return start + total

    def _event(self, category: str, name: str, start: float, seconds: float) -> None:
        inputs = {"Input Dims": [[1, 16, 64, 64]], "Input type": ["float"]}
        args = inputs if category == "cpu_op" else {}
        known = {"ph": "X", "pid": 1, "tid": 1, "cat": category, "name": name, "args": args}
        self._events.append({**known, "ts": start * 1e6, "dur": seconds * 1e6})

    def _primitive(self, body: str, start: float, seconds: float) -> None:
        at = (BASE_S + start) * 1e3
        self._log.append(f"onednn_verbose,v1,{at:.6f},primitive,exec,{body},{seconds * 1e3:.6f}\n")


def planted(
    folder: Path,
    *,
    traced: tuple[float, ...] = (1.05,) * 3,
    verbose: tuple[float, ...] = (1.1,) * 3,
    relu_s: float = RELU_S,
) -> Captured:
    """Return files and medians of a plain step, and of steps so many times slower.

    relu_s: what the op outside oneDNN takes of the verbose step.
    """
    of_trace = Watched(traced, verbose=False).write(folder / "trace")
    of_verbose = Watched(verbose, verbose=True, relu_s=relu_s).write(folder / "verbose")
    return Captured(
        trace=of_trace,
        verbose=folder / "verbose" / "verbose.log",
        verbose_trace=of_verbose,
        step_s=STEP_S,
        traced_step_s=STEP_S * sorted(traced)[len(traced) // 2],
        verbose_step_s=STEP_S * sorted(verbose)[len(verbose) // 2],
    )
