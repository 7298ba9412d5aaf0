"""`python -m agents.inference.runner SPEC.json`: do one run; print JSON lines, see messages.py.

Exit status 0 with a result, VALID or INVALID, and 1 with a failure.
"""

from __future__ import annotations

import os
import sys
import threading
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agents.inference.runner.audited import (
    batched_session_of,
    batched_warmth_of,
    session_of,
    warmth_of,
)
from agents.inference.runner.batched_model import BatchedModel
from agents.inference.runner.batched_session import batch_sizes
from agents.inference.runner.dataset import Dataset
from agents.inference.runner.faults import (
    RunnerFault,
    out_of_memory,
    spec_invalid,
    storage_fault,
)
from agents.inference.runner.images import read_dataset
from agents.inference.runner.measuring import Prepared, measured
from agents.inference.runner.messages import MessageWriter
from agents.inference.runner.model import TfliteModel
from agents.inference.runner.spec import AT_ONCE, RunSpec
from agents.inference.runner.thread_use import ThreadUse
from agents.inference.runner.window import Window, available_bytes


def main() -> int:
    """Do the run that the spec named on the command line describes."""
    messages = MessageWriter.claim_stdout()
    spec: RunSpec | None = None
    try:
        if len(sys.argv) != 2:
            raise spec_invalid("usage: runner SPEC.json")
        spec = RunSpec.read(Path(sys.argv[1]))
        if spec.die_with_stdin:
            threading.Thread(target=_end_with_stdin, daemon=True).start()
        messages.result(run(spec, messages))
    except Exception as error:  # noqa: BLE001 - the boundary: every fault becomes a failure
        storage = storage_fault(Path(spec.log_dir).parent) if spec else None
        messages.failure(storage or _fault_of(error))
        return 1
    return 0


def _fault_of(error: Exception) -> RunnerFault:
    if isinstance(error, RunnerFault):
        return error
    if isinstance(error, MemoryError):
        return out_of_memory()
    traceback.print_exc()
    return RunnerFault("exception", f"{type(error).__name__}: {error}", "workload")


def run(spec: RunSpec, messages: MessageWriter) -> dict[str, Any]:
    """Load, warm up, measure with LoadGen, and return the result; raises RunnerFault."""

    def prepare() -> Prepared:
        return _batched(spec, messages) if spec.batch_size > 1 else _single(spec, messages)

    return measured(spec, messages.progress, prepare)


def _single(spec: RunSpec, messages: MessageWriter) -> Prepared:
    model = TfliteModel(spec)
    dataset, window = _dataset(spec, model)
    messages.progress("warm-up", 0, 1, {})
    used = ThreadUse.now()
    warmth = warmth_of(spec, model, model.prepare(dataset[0]))
    worked = used.threads_since() if warmth.runs else None
    facts = {**_facts(spec, model), **window.facts(), "threads_used": worked}
    session = session_of(model, dataset, window.limit(spec))
    return Prepared(session, warmth, len(dataset), facts)


def _batched(spec: RunSpec, messages: MessageWriter) -> Prepared:
    model = BatchedModel(spec, batch_sizes(spec.queried_at_once, spec.batch_size)[0])
    dataset, window = _dataset(spec, model.largest)
    spec = window.limit(spec)
    sizes = batch_sizes(spec.queried_at_once, spec.batch_size)
    messages.progress("warm-up", 0, 1, {})
    used = ThreadUse.now()
    warmth = batched_warmth_of(spec, model, model.prepare(dataset[0]), sizes)
    worked = used.threads_since() if warmth.runs else None
    facts = {**_facts(spec, model.largest), **window.facts(), "threads_used": worked}
    session = batched_session_of(model, dataset, spec, sizes[0])
    return Prepared(session, warmth, len(dataset), {**facts, AT_ONCE: sizes[0]})


def _dataset(spec: RunSpec, model: TfliteModel) -> tuple[Dataset, Window]:
    """Return the data set, and how much of it the memory holds beside the model."""
    wanted, free = spec.performance_sample_count, available_bytes()
    if spec.audit and free is not None:
        free //= 2  # it holds copies of samples, too
    if not spec.dataset:
        window = Window.of(wanted, model.sample_bytes, free)
        return Dataset(model.made_up(window.samples)), window
    dataset = read_dataset(spec, model.input_type).first(spec.first_samples)
    return dataset, Window.of(min(wanted, len(dataset)), model.sample_bytes, free)


def _facts(spec: RunSpec, model: TfliteModel) -> Mapping[str, object]:
    taken = model.delegated
    return {
        "runtime": model.runtime,
        model.runtime: model.version,
        "delegate": model.delegate,
        "delegate_partitions": taken.partitions,
        "delegated_nodes": taken.taken,
        "graph_nodes": taken.nodes,
        "undelegated_operators": taken.left,
        "threads": spec.threads,
        "input_type": model.input_type,
        **model.facts(),
    }


def _end_with_stdin() -> None:
    while os.read(0, 4096):
        pass
    os._exit(1)  # whoever started the run is gone


if __name__ == "__main__":
    sys.exit(main())
