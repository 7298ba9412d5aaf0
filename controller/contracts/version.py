"""The version of the installed benchfarm; agent and controller must have the same."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.metadata import distribution, version
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from pydantic import BaseModel

from controller.contracts.documents import read_limited
from controller.contracts.unreadable import UNREADABLE

ORIGIN: Final = "direct_url.json"
"""What a distribution that comes from no index was installed from (PEP 610)."""
_COMMIT: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


class _Repository(BaseModel):
    commit_id: str = ""


class _Origin(BaseModel):
    url: str = ""
    vcs_info: _Repository = _Repository()


def installed_version() -> str:
    """Return the version in the installed package's metadata."""
    return version("benchfarm")


def installed_commit() -> str | None:
    """Return the commit that benchfarm was installed from; None if that is not known.

    Of an installed folder that is a working copy, the commit that is checked out.
    """
    text = distribution("benchfarm").read_text(ORIGIN)
    if text is None:
        return None
    try:
        origin = _Origin.model_validate_json(text)
        if origin.vcs_info.commit_id:
            return origin.vcs_info.commit_id
        return checked_out(Path(unquote(urlsplit(origin.url).path)))
    except UNREADABLE:
        return None


def checked_out(folder: Path) -> str | None:
    """Return the commit of a working copy of git; None for another folder. Raises OSError."""
    git = folder / ".git"
    if git.is_file():  # a further working copy of a repository
        git = folder / read_limited(git).decode().removeprefix("gitdir:").strip()
    if not (git / "HEAD").is_file():
        return None
    head = read_limited(git / "HEAD").decode().strip()
    if not head.startswith("ref: "):
        return head if _COMMIT.fullmatch(head) else None
    return next(_commits(git, head.removeprefix("ref: ")), None)


def _commits(git: Path, ref: str) -> Iterator[str]:
    """Yield what a reference stands for, by each of the files that may say it."""
    shared = git / "commondir"
    folders = [git]
    if shared.is_file():
        folders.append(git / read_limited(shared).decode().strip())
    for folder in folders:
        if (folder / ref).is_file():
            yield read_limited(folder / ref).decode().strip()
        packed = folder / "packed-refs"
        for line in read_limited(packed).decode().splitlines() if packed.is_file() else ():
            commit, _, name = line.partition(" ")
            if name == ref and _COMMIT.fullmatch(commit):
                yield commit
