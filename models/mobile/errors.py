"""Errors of mobile tasks; each names the file, and the field of its manifest."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Final

from controller.contracts.errors import UserError

_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class NotInStore(UserError):
    """A file that nobody has added to the store yet."""


class ContentDiffers(UserError):
    """A file whose content differs from its manifest's checksum."""


class FileUnreadable(UserError):
    """A file of the store, or of the project's own, that can't be read."""


class ModelUnusable(UserError):
    """A model that LiteRT can't read, or whose signature is not its task's."""


class DatasetUnusable(UserError):
    """A data set that can't be read: a damaged image, a truth that does not fit."""


class NoRoom(UserError):
    """A disk, quota or limit that takes no more of a file."""


def not_written(
    tried: str,
    folder: Path,
    error: OSError,
    then: str = "",
    remedy: str = "Make it accessible to this user.",
) -> UserError:
    """Return the error of a write into a folder, NoRoom if that is why.

    then: what to do once there is room; remedy: what to do about any other reason.
    """
    reason = error.strerror or str(error)
    if error.errno in _FULL:
        return NoRoom(tried, f"{reason} in {folder}", f"Make room. {then}")
    # A read that fails names no file, and is no fault of the folder that is written to.
    where = f": {error.filename}" if error.filename else ""
    return UserError(tried, f"{reason}{where}", remedy)
