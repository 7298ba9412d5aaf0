"""`python -m tests.support.graph_answers`: loads graphs; says what they answer, or their fault.

In a process of its own: LiteRT says at the process's end, on standard error, what it ends. Takes a
JSON list of runner specs on standard input; prints a JSON list.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from agents.inference.runner.faults import RunnerFault
from agents.inference.runner.graphs import load_graph, made_up
from agents.inference.runner.spec import RunSpec

SAMPLES = 3


def said(given: Mapping[str, Any]) -> dict[str, object]:
    """Return a graph's answers, facts and nodes, or its fault."""
    spec = RunSpec.of(given)
    try:
        graph = load_graph(spec, "ai_edge_litert", spec.batch_size)
    except RunnerFault as fault:
        return {"fault": [fault.kind, fault.blame, fault.message]}
    inputs = made_up(graph.inputs, SAMPLES)
    samples = [tuple(one[n : n + 1] for one in inputs) for n in range(SAMPLES)]
    answers = [graph.run(sample)[0] for sample in samples]
    for sample, answer in zip(reversed(samples), reversed(answers), strict=True):
        np.testing.assert_array_equal(graph.run(sample)[0], answer)  # whatever came before
    return {
        "answers": [answer.tolist() for answer in answers],
        "types": [f"{answer.dtype} {answer.shape}" for answer in answers],
        "facts": graph.facts(),
        "delegated": asdict(graph.delegated),
    }


if __name__ == "__main__":
    json.dump([said(given) for given in json.load(sys.stdin)], sys.stdout)
