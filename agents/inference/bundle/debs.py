"""Unpacks a Debian package without installing it."""

from __future__ import annotations

import subprocess
from pathlib import Path

from agents.inference.bundle.recipe import BundleUnbuildable, raise_if_killed


def unpack_deb(package: Path, folder: Path) -> None:
    """Unpack a package's files into a folder; raises BundleUnbuildable."""
    done = subprocess.run(
        ("dpkg-deb", "--extract", package, folder), capture_output=True, text=True, check=False
    )
    raise_if_killed(f"unpacking {package}", done.returncode)
    if done.returncode != 0:
        raise BundleUnbuildable(
            f"unpack {package}", done.stderr.strip(), "Build it again with --refresh."
        )
