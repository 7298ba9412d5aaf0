"""What has become of the files that attempts left, by the head's copies of them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from controller.contracts.artefacts import ArtefactPlace, ArtefactRecord
from controller.contracts.errors import CopyDamaged
from controller.contracts.provenance import FileState
from controller.contracts.records import OutcomeOrigin
from controller.runtime.run_files import RunFiles, name_of


def states_of(
    files: RunFiles | None, outcome: OutcomeOrigin, wanted: Mapping[str, str | None]
) -> dict[str, FileState]:
    """Return what has become of each file of an attempt, by its path.

    files: of its run, None of one that no farm has. wanted: path, as its agent told or as `listed`
    has it → SHA-256, if it was recorded.
    Each copy is read, and compared with that.
    """
    if files is None:
        return dict.fromkeys(wanted, FileState.ELSEWHERE)
    mine = {one.name: one for one in files.listed if one.attempt == outcome.attempt}
    listed = {one.path: one.name for one in mine.values()}
    return {
        path: _state(files, mine, listed.get(path) or name_of(outcome, path), sha256)
        for path, sha256 in wanted.items()
    }


def _state(
    files: RunFiles, mine: Mapping[str, ArtefactRecord], name: str, sha256: str | None
) -> FileState:
    if (one := mine.get(name)) is None:
        is_folder = bool(name) and any(other.startswith(f"{name}/") for other in mine)
        # A folder, such as a profile, has its files listed for themselves.
        return FileState.UNCHECKED if is_folder else FileState.ELSEWHERE
    if one.where is not ArtefactPlace.HEAD:
        return FileState.GONE if one.where is ArtefactPlace.EXPIRED else FileState.ELSEWHERE
    whole = hashlib.sha256()
    try:
        for piece in files.pieces(one):
            whole.update(piece)
    except CopyDamaged:
        return FileState.UNREADABLE
    if sha256 is None:
        return FileState.UNCHECKED
    return FileState.UNCHANGED if whole.hexdigest() == sha256 else FileState.CHANGED
