"""`python -m agents.stacks HOME list | show STACK | install STACK`: the stacks of this host.

`list` and `show` print JSON, `install` its progress. HOME is BENCHFARM_HOME.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from agents.stacks.environments import EnvironmentFolder, stacks_folder
from agents.stacks.install import Installation
from agents.stacks.status import details_of, status_of
from controller.contracts.catalog import load_catalog
from controller.contracts.errors import NotFound, UserError
from controller.contracts.manifests import StackManifest
from controller.platform.interrupted import quietly_interrupted
from controller.platform.terminal import say


def main(arguments: Sequence[str]) -> int:
    """Run the verb; return exit status 2, with one line, if it fails."""
    home, verb, *names = arguments
    stacks = stacks_folder(Path(home))
    try:
        if verb == "list":
            statuses = [status_of(s, stacks) for s in load_catalog().stacks.values()]
            _say(json.dumps([status.model_dump(mode="json") for status in statuses]))
        elif verb == "show":
            _say(details_of(_stack(names[0]), stacks).model_dump_json())
        else:
            _install(_stack(names[0]), stacks)
    except UserError as error:
        say(f"benchfarm: {error}", err=True)
        return 2
    return 0


def _install(stack: StackManifest, stacks: Path) -> None:
    if stack.environment is None:
        status = status_of(stack, stacks)
        _say(f"stack {stack.name}: has nothing of its own to install; {status.detail}")
        return
    folder = EnvironmentFolder(stacks / stack.name, stack.environment)
    Installation(stack.name, folder, _say, os.environ).run()


def _stack(name: str) -> StackManifest:
    stacks = load_catalog().stacks
    if name not in stacks:
        raise NotFound(
            f"find stack {name}", "no stack has that name", f"Choose among {', '.join(stacks)}."
        )
    return stacks[name]


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    with quietly_interrupted():
        sys.exit(main(sys.argv[1:]))
