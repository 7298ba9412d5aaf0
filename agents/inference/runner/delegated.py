"""How much of a graph a delegate took: the nodes behind those that it put in their place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

DELEGATE = "DELEGATE"
"""What the runtime calls a node that stands for several."""
MAX_KINDS = 20
Operation = Mapping[str, Any]
"""`op_name`, `inputs` and `outputs`, which are numbers of tensors."""


@dataclass(frozen=True, slots=True)
class Delegated:
    """Of one interpreter, once its tensors are allocated."""

    nodes: int
    """Of the graph as it is in the file."""
    taken: int
    partitions: int
    """Into how many pieces what was taken falls; between them are other kernels."""
    left: tuple[str, ...]
    """Kinds of the operators that were not taken, the first MAX_KINDS by name."""


def delegated(operations: Iterable[Operation]) -> Delegated:
    """Work it out from all nodes an interpreter has: the graph's stay listed beside a delegate's.

    A node was taken if it is between the inputs and the outputs of a delegate's node; the runtime
    itself tells this number in its log only ("Replacing 16 out of 78 node(s)").
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
    """Return the nodes that a delegate's node stands for."""
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
