"""`PYTHON entry.py PACKAGES MODULE ARGUMENTS`: run a module of ours in a stack's interpreter.

PACKAGES is a JSON object: name of a package of ours → its folders. Nothing else of benchfarm's
environment becomes importable there, so a stack finds only its own libraries; its required packages
are `interpreter.NEEDED_IN_A_STACK`.

Imports only the standard library, since it runs before any of our packages can be found.
"""

from __future__ import annotations

import json
import runpy
import sys
from importlib.util import module_from_spec, spec_from_file_location


def make_importable(name: str, folders: list[str]) -> None:
    """Import a package from the given folders, so that its modules are found there, too."""
    init = f"{folders[0]}/__init__.py"
    spec = spec_from_file_location(name, init, submodule_search_locations=folders)
    if spec is None or spec.loader is None:
        raise ImportError(f"{init} is not a package")
    package = module_from_spec(spec)
    sys.modules[name] = package
    spec.loader.exec_module(package)


if __name__ == "__main__":
    _, packages, module, *arguments = sys.argv
    for package_name, package_folders in json.loads(packages).items():
        make_importable(package_name, package_folders)
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
