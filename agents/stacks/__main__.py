"""`python -m agents.stacks`: a helper for the stacks of this host; serves a StackRequest."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from agents.stacks.environments import EnvironmentFolder, stacks_folder
from agents.stacks.install import Installation
from agents.stacks.status import details_of, status_of
from controller.contracts.catalog import load_catalog, named
from controller.contracts.manifests import StackManifest
from controller.contracts.stacks import StackRequest
from controller.platform.helper_main import Replies, serve


def handle(request: StackRequest, replies: Replies) -> None:
    """Answer with a StackStatus for each stack, a StackDetails, or the StackStatus once installed.

    Raises NotFound, UserError.
    """
    stacks = stacks_folder(request.home)
    if request.verb == "list":
        catalog = load_catalog()
        for name, stack in catalog.stacks.items():
            replies.answer(status_of(stack, stacks, catalog.plugin_of("stack", name)))
    elif request.verb == "show":
        plugin = load_catalog().plugin_of("stack", request.stack)
        replies.answer(details_of(_stack(request.stack), stacks, plugin))
    else:
        stack = _stack(request.stack)
        _install(stack, stacks, replies)
        replies.answer(status_of(stack, stacks))


def _install(stack: StackManifest, stacks: Path, replies: Replies) -> None:
    if stack.environment is None:
        status = status_of(stack, stacks)
        line = f"stack {stack.name}: has nothing of its own to install; {status.detail}"
        replies.progress(line)
        return
    folder = EnvironmentFolder(stacks / stack.name, stack.environment)
    Installation(stack.name, folder, replies.progress, os.environ).run()


def _stack(name: str) -> StackManifest:
    return named("stack", name, load_catalog().stacks)


if __name__ == "__main__":
    sys.exit(serve(StackRequest, handle))
