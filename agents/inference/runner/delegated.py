"""The share of a graph that a delegate took: the nodes that its nodes replace."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

DELEGATE = "DELEGATE"
"""The runtime's operator name for a node that replaces several."""
MAX_KINDS = 20
Operation = Mapping[str, Any]
"""`op_name`, and `inputs` and `outputs` as tensor numbers."""


@dataclass(frozen=True, slots=True)
class Delegated:
    """What the delegate of an interpreter took; valid once its tensors are allocated."""

    nodes: int
    """Nodes of the graph in the file."""
    taken: int
    partitions: int
    """Number of separate parts that the delegate took."""
    left: tuple[str, ...]
    """Kinds of operators that the delegate did not take, the first MAX_KINDS by name."""


def delegated(operations: Iterable[Operation]) -> Delegated:
    """Compute it from all nodes of an interpreter: the replaced nodes stay listed.

    A node was taken if it lies between the inputs and the outputs of a delegate's node. The runtime
    gives this number only in its log ("Replacing 16 out of 78 node(s)").
    """
    nodes: list[Operation] = []
    placed: list[Operation] = []
    for operation in operations:
        (placed if operation["op_name"] == DELEGATE else nodes).append(operation)
    maker = {int(tensor): n for n, node in enumerate(nodes) for tensor in node["outputs"]}
    taken = {n for partition in placed for n in _behind(partition, nodes, maker)}
    left = {str(node["op_name"]) for n, node in enumerate(nodes) if n not in taken}
    return Delegated(len(nodes), len(taken), len(placed), tuple(sorted(left)[:MAX_KINDS]))


def _behind(partition: Operation, nodes: Sequence[Operation], maker: Mapping[int, int]) -> set[int]:
    """Return the nodes that a delegate's node replaces."""
    given = {int(tensor) for tensor in partition["inputs"]}
    wanted = [int(tensor) for tensor in partition["outputs"]]
    found: set[int] = set()
    while wanted:
        tensor = wanted.pop()
        number = maker.get(tensor)
        if tensor not in given and number is not None and number not in found:
            found.add(number)
            wanted += [int(one) for one in nodes[number]["inputs"]]
    return found
