"""`PYTHON entry.py PACKAGES MODULE ARGUMENTS`: run a module of ours in a stack's interpreter.

PACKAGES is a JSON object: name of a package of ours, or of a plugin → its folders. Nothing else of
benchfarm's environment becomes importable there, so a stack finds only its own libraries; its
required packages are `interpreter.NEEDED_IN_A_STACK`.

Imports only the standard library, since it runs before any of our packages can be found.
"""

from __future__ import annotations

import json
import runpy
import sys
from collections.abc import Mapping, Sequence
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location


class PackageFinder:
    """Finds packages in given folders; the import system then finds their modules there, too."""

    def __init__(self, folders: Mapping[str, Sequence[str]]) -> None:
        self._folders = folders

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: object = None
    ) -> ModuleSpec | None:
        """Return where a package is, or None for all others; called by the import system."""
        folders = self._folders.get(name)
        if not folders:
            return None
        init = f"{folders[0]}/__init__.py"
        return spec_from_file_location(name, init, submodule_search_locations=[*folders])


if __name__ == "__main__":
    _, packages, module, *arguments = sys.argv
    sys.meta_path.insert(0, PackageFinder(json.loads(packages)))
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
