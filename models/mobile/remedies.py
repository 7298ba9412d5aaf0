"""What a user does to have a file of the catalogue in the store. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from controller.contracts.mobile import DatasetPart, ModelFile
from controller.contracts.models import SetName
from controller.contracts.weights import KNOB

WEB: Final = ("https://", "http://")
SETS: Final[Mapping[str, SetName]] = {
    "imagenet": "imagenet",
    "coco": "coco",
    "ade20k": "ade20k",
    "squad": "squad",
    "image_pairs": "opensr",
}
"""Kind of data set → the set that `models prepare` makes such ones of."""


def is_on_web(content: ModelFile | DatasetPart) -> bool:
    """Return whether a file has an address from which it can be fetched."""
    return (content.source or "").startswith(WEB)


def does_not_count(what: str, remedy: str) -> str:
    """Return the line about a data set of which no published checksum vouches for some parts."""
    return (
        f"origin of the {what} not known: runs with this set do not meet the suite's run rules. "
        f"{remedy}"
    )


def command_for(key: str, content: ModelFile | DatasetPart, kind: str | None) -> str:
    """Return the command that puts a file into the store.

    key: see Entry; kind: that of its data set, None for a model, weights or a program's file.
    """
    task, middle, name = key.split("/")
    if is_on_web(content) and middle == KNOB:
        return f"benchfarm models fetch {task} --weights {name}"
    if is_on_web(content) and middle != "files":
        return f"benchfarm models fetch {task}"
    if kind is not None and kind in SETS and not content.checksum:
        return f"benchfarm models prepare {SETS[kind]} FOLDER"
    return "benchfarm models add PATH" + ("" if content.checksum else f" --as {key}")
