"""`python -m agents.inference.bundle NAME [--refresh]`: build a bundle and print its path."""

from __future__ import annotations

import sys

from agents.inference.bundle.build import build_bundle
from agents.inference.bundle.recipe import recipe_named
from agents.inference.content import cache_folder
from controller.contracts.errors import UserError
from controller.platform.terminal import say


def main() -> int:
    """Build the bundle; return exit status 2 and print one line if it can't be built."""
    refresh = "--refresh" in sys.argv[2:]
    try:
        bundle = build_bundle(cache_folder(), recipe_named(sys.argv[1]), refresh)
    except UserError as error:
        say(f"benchfarm: {error}", err=True)
        return 2
    size = bundle.archive.stat().st_size / 2**20
    sys.stdout.write(f"{bundle.name}: {bundle.archive}, {size:.0f} MiB\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
