"""Errors of mobile tasks; each names the file, and the field of its manifest."""

from __future__ import annotations

from controller.contracts.errors import UserError


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
