"""How images come to a model's input, told to the runner. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from controller.contracts.mobile import ImageInput, InputKind


def image_spec(wanted: InputKind) -> Mapping[str, object]:
    """Return the part of a runner's spec about images; empty for other inputs."""
    if not isinstance(wanted, ImageInput):
        return {}
    return {f"input_{name}": value for name, value in wanted.model_dump(exclude={"kind"}).items()}
