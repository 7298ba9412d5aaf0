"""Where files are fetched from: the addresses in manifests, or a user's mirror of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import httpx

from controller.contracts.errors import UserError
from models.mobile.fetching.download import is_allowed, without_password
from models.mobile.fetching.selection import WantedFile

_REMEDY = "Name a folder, or an https:// or http:// URL."


@dataclass(frozen=True, slots=True)
class Mirror:
    """A folder or URL in place of the addresses in manifests; neither: those."""

    folder: Path | None = None
    url: str | None = None

    @classmethod
    def of(cls, given: str | None) -> Mirror:
        """Return the mirror that a user names; raises UserError."""
        if given is None:
            return cls()
        if "://" not in given:
            try:
                seen = "" if Path(given).is_dir() else "there is no such folder"
            except OSError as error:
                seen = error.strerror or str(error)
            if seen:
                raise UserError(f"fetch from {given}", seen, _REMEDY)
            return cls(folder=Path(given))
        try:
            url = httpx.URL(given)
        except httpx.InvalidURL as error:
            raise UserError("fetch from a mirror", str(error), _REMEDY) from error
        if url.scheme not in ("https", "http") or not url.host:
            seen = "it is no https or http address"
            raise UserError(f"fetch from {without_password(url)}", seen, _REMEDY)
        if url.query or url.fragment:
            seen = "paths of files can't follow ? or #"
            raise UserError(f"fetch from {without_password(url)}", seen, _REMEDY)
        return cls(url=given.rstrip("/"))

    def urls(self, wanted: WantedFile) -> tuple[str, ...]:
        """Return the addresses of a file, in the order in which they are tried.

        Raises UserError if a manifest's address may not be used.
        """
        if self.url:
            return tuple(f"{self.url}/{quote(path)}" for path in (wanted.path, wanted.name))
        if not is_allowed(httpx.URL(wanted.source)):
            seen = f"its address is not https: {wanted.source}"
            raise UserError(f"fetch {wanted.name}", seen, wanted.by_hand)
        return (wanted.source,)

    def files(self, wanted: WantedFile) -> Iterator[Path]:
        """Yield the files of the folder that may be the wanted one: by its path, then by name."""
        assert self.folder is not None
        folder = self.folder.resolve()
        at_path = (folder / wanted.path).resolve()
        if at_path.is_relative_to(folder) and at_path.is_file():
            yield at_path
        found = (path for path in folder.rglob("*") if path.name == wanted.name)
        yield from sorted(path for path in found if path.is_file() and path != at_path)
