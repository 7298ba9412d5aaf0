"""`python -m agents.stacks.probe STACK`: print the environment that a stack's worker records, as
JSON.

Runs in the stack's own interpreter.
"""

from __future__ import annotations

import json
import sys
from importlib.metadata import distributions

from agents.stacks.resolving import resolve
from controller.contracts.catalog import load_catalog
from controller.contracts.manifests import defaults_of


def main() -> int:
    """Build the stack's backend with default knobs, and print its environment."""
    stack = load_catalog().stacks[sys.argv[1]]
    backend = resolve(str(stack.backend))(defaults_of(stack.knobs))
    packages = sorted(f"{d.name}=={d.version}" for d in distributions())
    said = {"packages": packages, "environment": backend.environment()}
    sys.stdout.write(json.dumps(said) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
