"""Where the routes of the API are."""

from __future__ import annotations

from typing import Final

PREFIX: Final = "/api/v1"
EXPORT: Final = "/export"
"""Below a list: all of it at once."""
CONTENT: Final = "/artefacts/{sha256}"
"""The content of an artefact."""
