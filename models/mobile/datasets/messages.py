"""Protobuf messages of data sets, defined here so that no code generation is needed.

Fields of `tf.train.Example` (tensorflow/core/example/example.proto, feature.proto), and of the
truth file for COCO in MLPerf Mobile's app, whose text form names its fields.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_Field = descriptor_pb2.FieldDescriptorProto
_PACKAGE = "benchfarm.datasets"
_MESSAGES: dict[str, list[tuple[str, int, int, str]]] = {
    "BytesList": [("value", 1, _Field.TYPE_BYTES, "*")],
    "FloatList": [("value", 1, _Field.TYPE_FLOAT, "*")],
    "Int64List": [("value", 1, _Field.TYPE_INT64, "*")],
    "Feature": [
        ("bytes_list", 1, _Field.TYPE_MESSAGE, "BytesList"),
        ("float_list", 2, _Field.TYPE_MESSAGE, "FloatList"),
        ("int64_list", 3, _Field.TYPE_MESSAGE, "Int64List"),
    ],
    "FeatureEntry": [
        ("key", 1, _Field.TYPE_STRING, ""),
        ("value", 2, _Field.TYPE_MESSAGE, "Feature"),
    ],
    "Features": [("feature", 1, _Field.TYPE_MESSAGE, "*FeatureEntry")],
    "Example": [("features", 1, _Field.TYPE_MESSAGE, "Features")],
    "BoundingBox": [
        (f"normalized_{edge}", number, _Field.TYPE_FLOAT, "")
        for number, edge in enumerate(("top", "bottom", "left", "right"), 1)
    ],
    "DetectedObject": [
        ("class_id", 1, _Field.TYPE_INT32, ""),
        ("bounding_box", 2, _Field.TYPE_MESSAGE, "BoundingBox"),
    ],
    "DetectionResult": [
        ("objects", 1, _Field.TYPE_MESSAGE, "*DetectedObject"),
        ("image_name", 2, _Field.TYPE_STRING, ""),
        ("image_id", 3, _Field.TYPE_INT32, ""),
    ],
    "DetectionTruth": [("detection_results", 1, _Field.TYPE_MESSAGE, "*DetectionResult")],
}
"""Message → (field, number, type, name of the message, with `*` if repeated)."""


def example(content: bytes) -> dict[str, list[Any]]:
    """Return the features of a serialised `tf.train.Example`; raises DecodeError."""
    found: dict[str, list[Any]] = {}
    for entry in _class("Example").FromString(content).features.feature:
        chosen = next(iter(entry.value.ListFields()), None)
        found[entry.key] = list(chosen[1].value) if chosen else []
    return found


def serialized(features: Mapping[str, Sequence[int] | Sequence[bytes]]) -> bytes:
    """Return a `tf.train.Example` of features that are integers or bytes."""
    found = _class("Example")()
    for key, values in features.items():
        value = found.features.feature.add(key=key).value
        of_bytes = any(isinstance(each, bytes) for each in values)
        kind = value.bytes_list if of_bytes else value.int64_list
        kind.SetInParent()
        kind.value.extend(values)
    written: bytes = found.SerializeToString()
    return written


def detection_truth() -> Any:  # noqa: ANN401 - a class made at run time
    """Return an empty message for the suite's COCO truths."""
    return _class("DetectionTruth")()


@cache
def _class(name: str) -> Any:  # noqa: ANN401 - as above
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(_file().SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}"))


def _file() -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(
        name="benchfarm_datasets.proto", package=_PACKAGE, syntax="proto3"
    )
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, number, kind, more in fields:
            repeated = more.startswith("*")
            entry = message.field.add(name=field, number=number, type=kind)
            entry.label = _Field.LABEL_REPEATED if repeated else _Field.LABEL_OPTIONAL
            if of := more.removeprefix("*"):
                entry.type_name = f".{_PACKAGE}.{of}"
    return file
