"""How many nodes of a graph a delegate took, of planted graphs and of the project's own models."""

from __future__ import annotations

from pathlib import Path

import pytest
from ai_edge_litert.interpreter import Interpreter, OpResolverType

from agents.inference.runner.delegated import MAX_KINDS, Delegated, delegated

MODELS = Path(__file__).parents[3] / "models/mobile"


def node(name: str, inputs: list[int], outputs: list[int]) -> dict[str, object]:
    return {"op_name": name, "inputs": inputs, "outputs": outputs}


CONV, RELU, ADD = node("CONV", [0, 10], [1]), node("RELU", [1], [2]), node("ADD", [1, 2], [3])


@pytest.mark.parametrize(
    ("operations", "expected"),
    [
        ([], Delegated(0, 0, 0, ())),
        ([CONV, RELU, ADD], Delegated(3, 0, 0, ("ADD", "CONV", "RELU"))),
        ([CONV, RELU, ADD, node("DELEGATE", [0, 10], [3])], Delegated(3, 3, 1, ())),
        ([CONV, RELU, ADD, node("DELEGATE", [0, 10], [1])], Delegated(3, 1, 1, ("ADD", "RELU"))),
        (  # two pieces, between which another kernel runs
            [CONV, RELU, ADD, node("DELEGATE", [0, 10], [1]), node("DELEGATE", [1, 2], [3])],
            Delegated(3, 2, 2, ("RELU",)),
        ),
        (  # one piece with two outputs, one of which the rest needs
            [CONV, RELU, ADD, node("DELEGATE", [0, 10], [1, 2])],
            Delegated(3, 2, 1, ("ADD",)),
        ),
        ([CONV, node("DELEGATE", [7], [8])], Delegated(1, 0, 1, ("CONV",))),  # of nothing here
        (  # a tensor that says it comes of itself ends, too
            [node("LOOP", [1], [1]), node("DELEGATE", [0], [1])],
            Delegated(1, 1, 1, ()),
        ),
    ],
)
def test_planted_graphs(operations: list[dict[str, object]], expected: Delegated) -> None:
    assert delegated(operations) == expected


def test_a_graph_of_many_kinds_names_some() -> None:
    found = delegated([node(f"OP{n:02}", [n], [n + 1]) for n in range(50)])
    assert len(found.left) == MAX_KINDS


@pytest.mark.parametrize(
    ("model", "nodes", "taken", "left"),
    [
        ("classifier/shapes_int8.tflite", 12, 12, ()),
        ("surrogates/mosaic_fp32.tflite", 2, 1, ("ARG_MAX",)),
        ("surrogates/mobiledet_fp32.tflite", 13, 11, ("ARG_MAX", "CAST")),
        ("surrogates/mobilebert_fp32.tflite", 15, 12, ("CAST",)),
    ],
)
def test_models_of_the_project(model: str, nodes: int, taken: int, left: tuple[str, ...]) -> None:
    kinds = OpResolverType
    for kind, expected in (
        (kinds.AUTO, taken),
        (kinds.BUILTIN_WITHOUT_DEFAULT_DELEGATES, 0),
    ):
        interpreter = Interpreter(str(MODELS / model), experimental_op_resolver_type=kind)
        interpreter.allocate_tensors()
        found = delegated(interpreter._get_ops_details())
        assert (found.nodes, found.taken) == (nodes, expected)
        assert not taken or not expected or found.left == left
