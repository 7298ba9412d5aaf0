"""A user's task with one file that has to be fetched."""

from __future__ import annotations

import hashlib
from pathlib import Path

import yaml

from models.mobile import catalogue

SHAPES = Path(catalogue.__file__).parent / "classifier/shapes_int8.tflite"
_LIKE = Path(catalogue.__file__).parents[1] / "manifests/mobile/mobilenet_edgetpu.yaml"


def md5(content: bytes) -> str:
    """Return a checksum as manifests have it."""
    return f"md5:{hashlib.md5(content, usedforsecurity=False).hexdigest()}"


def write_task(folder: Path, **part: object) -> Path:
    """Write task `mine`: a model of the project's, and a data set whose samples are this part."""
    task = yaml.safe_load(_LIKE.read_text())
    task["name"] = "mine"
    on_device = task["on_device"]
    own = hashlib.sha256(SHAPES.read_bytes()).hexdigest()
    model = {"path": "mobile/classifier/shapes_int8.tflite", "checksum": f"sha256:{own}"}
    on_device["models"] = {"int8": model}
    del on_device["signature"]
    kept = {key: value for key, value in part.items() if value is not None}
    on_device["datasets"] = {
        "tiny": {"kind": "imagenet", "licence": "CC0-1.0", "parts": {"samples": kept}}
    }
    task["knobs"]["numerics"] |= {"default": "int8", "choices": ["int8"]}
    task["knobs"]["dataset"] |= {"default": "tiny", "choices": ["tiny"]}
    file = folder / "mine.yaml"
    file.write_text(yaml.safe_dump(task))
    return file
