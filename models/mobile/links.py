"""Links to folders, which no search for files follows: they may lead anywhere, or in a circle."""

from __future__ import annotations

from pathlib import Path


def not_followed(folder: Path) -> str:
    """Return what an error adds if there is a link to a folder below this one, else nothing."""
    links = (path for path in folder.rglob("*") if path.is_symlink() and path.is_dir())
    found = next(links, None)
    return f" (links to folders, such as {found.name}, are not followed)" if found else ""
