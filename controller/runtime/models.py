"""The store of models and data sets, in a process of the models' side."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from controller.contracts.models import (
    Added,
    FetchEvent,
    FetchRequest,
    ModelRequest,
    ModelStatus,
    SetRequest,
)
from controller.platform.helper import Helper
from controller.platform.programs import python_module


def model_statuses(verb: Literal["list", "verify"]) -> list[ModelStatus]:
    """Return the models and data sets of all manifests; raises UserError."""
    helper = Helper(python_module("models.mobile", verb), f"{verb} the models")
    return list(helper.stream(ModelRequest(verb=verb), ModelStatus))


def add_to_models(path: Path, key: str | None) -> list[Added]:
    """Add a file, or what a folder holds, to the store; raises UserError."""
    helper = Helper(python_module("models.mobile", "add"), f"add {path} to the models")
    return list(helper.stream(ModelRequest(verb="add", path=path.absolute(), key=key), Added))


def fetch_models(request: FetchRequest) -> Iterator[FetchEvent]:
    """Fetch files into the store, and yield what becomes of each; raises UserError."""
    helper = Helper(python_module("models.mobile", "fetch"), "fetch models")
    return helper.stream(request, FetchEvent)


def prepare_set(request: SetRequest) -> list[Added]:
    """Make the parts of tasks from a published data set, and add them; raises UserError."""
    tried = f"prepare {request.name} from {request.path}"
    helper = Helper(python_module("models.mobile", "prepare-set"), tried)
    return list(helper.stream(request, Added))
