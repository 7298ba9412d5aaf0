"""Models that no interpreter supports, made of one that is supported."""

from __future__ import annotations

from pathlib import Path

import flatbuffers
from ai_edge_litert import schema_py_generated as schema

CUSTOM = 32
"""BuiltinOperator.CUSTOM of the schema."""


def with_custom_operator(source: Path, target: Path, name: str) -> None:
    """Write a model whose first operator is one that only its author has."""
    _rewrite(source, target, {"builtinCode": CUSTOM, "customCode": name.encode()})


def with_newer_operator(source: Path, target: Path, version: int) -> None:
    """Write a model whose first operator is of another version."""
    _rewrite(source, target, {"version": version})


def _rewrite(source: Path, target: Path, changes: dict[str, object]) -> None:
    model = schema.ModelT.InitFromObj(schema.Model.GetRootAsModel(source.read_bytes(), 0))
    used = model.operatorCodes[model.subgraphs[0].operators[0].opcodeIndex]
    for name, value in changes.items():
        setattr(used, name, value)
    if (
        "builtinCode" in changes
    ):  # files of before 2020 have it in another field, which still counts
        used.deprecatedBuiltinCode = changes["builtinCode"]
    builder = flatbuffers.Builder(source.stat().st_size * 2)
    builder.Finish(model.Pack(builder), b"TFL3")
    target.write_bytes(builder.Output())
