"""Fetching what manifests name into the store: each file is checked before it enters.

An unfinished file is `partial/<checksum>.part` of the store; the next fetch continues it. The one
process that fetches it holds `partial/<checksum>.lock`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import httpx

from controller.contracts.errors import UserError
from controller.contracts.models import FetchEvent, FetchRequest
from controller.contracts.suite_rules import load_suites
from controller.platform.locks import exclusive_in_thread, exclusive_now
from models.mobile.catalogue import entries, require_fit, require_part
from models.mobile.errors import ContentDiffers, FileUnreadable, NoRoom
from models.mobile.fetching.download import (
    Limits,
    NotServed,
    Unreachable,
    download,
    new_client,
    size_of,
)
from models.mobile.fetching.mirror import Mirror
from models.mobile.fetching.partial import forget, not_stored
from models.mobile.fetching.selection import (
    ManualFile,
    Selection,
    WantedFile,
    select,
    tasks_of,
)
from models.mobile.fetching.stored import StoredFiles
from models.mobile.fetching.telling import Tell, teller
from models.mobile.links import not_followed
from models.mobile.store import Store, digests, readable

PARTIAL: Final = "partial"
"""Folder of the store with unfinished files."""
DEFAULT_LIMITS: Final = Limits()


def fetch(request: FetchRequest, store: Store, tell: Tell, limits: Limits = DEFAULT_LIMITS) -> None:
    """Fetch the files that a request means and that are not in the store, or damaged there.

    Raises UserError if one is missing at the end; the others are fetched nevertheless, unless the
    disk is full.
    """
    selection = select(tasks_of(request, load_suites()), request, entries())
    mirror = Mirror.of(request.mirror)
    with new_client(limits) as client:
        Fetcher(store, client, mirror, tell, limits).fetch(selection)


@dataclass(slots=True)
class Fetcher:
    """One call of `fetch`."""

    store: Store
    client: httpx.Client
    mirror: Mirror
    tell: Tell
    limits: Limits
    unreachable: dict[str, Unreachable] = field(default_factory=dict)
    """Host → why there is no connection to it; it is not tried again."""
    failed: list[tuple[str, UserError]] = field(default_factory=list)
    """Name or key of each file that can't be had, and why. Names need not differ."""

    def fetch(self, selection: Selection) -> None:
        """Fetch a selection; raises UserError."""
        self.failed += selection.refused
        missing = [wanted for wanted in selection.files if self._is_missing(wanted)]
        manual = [each for each in selection.manual if self._is_left_to_user(each)]
        if missing:
            self._tell_sizes(missing)
        for wanted in missing:
            if error := self._error_of(wanted):
                self.failed.append((wanted.name, error))
            if isinstance(error, NoRoom):  # nor is there any for the others
                break
        self.failed += [(each.entry.key, each.error()) for each in manual if each.asked_for]
        self._conclude()

    def _is_missing(self, wanted: WantedFile) -> bool:
        """Return whether to fetch a file, and tell if it is there."""
        try:
            if not self.stored.is_whole(wanted):
                return True
            self.tell(FetchEvent(state="there", name=wanted.name))
        except FileUnreadable as error:
            self.failed.append((wanted.name, error))
        return False

    def _is_left_to_user(self, each: ManualFile) -> bool:
        """Return whether the user has to get a file, and tell so unless that is an error."""
        try:
            if self.stored.checksum(each.entry):
                return False
        except FileUnreadable as error:
            self.failed.append((each.entry.key, error))
            return False
        if not each.asked_for:
            self.tell(FetchEvent(state="manual", name=each.entry.key, note=each.remedy))
        return True

    def _tell_sizes(self, missing: Sequence[WantedFile]) -> None:
        name = f"{len(missing)} file{'' if len(missing) == 1 else 's'}"
        self.tell(FetchEvent(state="sizing", name=name))
        known = [size for wanted in missing if (size := self._size(wanted)) is not None]
        unknown = len(missing) - len(known)
        note = f"{unknown} of unknown size" if unknown else ""
        self.tell(FetchEvent(state="planned", name=name, total=sum(known), note=note))

    def _size(self, wanted: WantedFile) -> int | None:
        try:
            if self.mirror.folder:
                return next((path.stat().st_size for path in self.mirror.files(wanted)), None)
            for url in self.mirror.urls(wanted):
                with self._connected(url):
                    size = size_of(self.client, url, self.limits)
                if size is not None:
                    return size
        except (UserError, OSError):
            pass  # fetching it will say so
        return None

    def _error_of(self, wanted: WantedFile) -> UserError | None:
        """Fetch a file; return why it can't be had."""
        try:
            self._fetch_alone(wanted)
        except Unreachable as error:
            return UserError(f"fetch {wanted.name}", error.seen, wanted.by_hand)
        except UserError as error:
            return error
        return None

    def _conclude(self) -> None:
        for name, error in self.failed:
            self.tell(FetchEvent(state="failed", name=name, note=str(error)))
        if len(self.failed) == 1:
            raise self.failed[0][1]
        if self.failed:
            remedy = "`benchfarm models add FOLDER` adds all files that were copied to a folder."
            raise UserError(f"fetch {len(self.failed)} files", "each has a line above", remedy)

    def _fetch_alone(self, wanted: WantedFile) -> None:
        """Fetch a file unless another process has meanwhile; raises UserError."""
        folder = self.store.folder / PARTIAL
        part = folder / f"{wanted.stem}.part"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with self._alone(part.with_suffix(".lock"), wanted):
                if self.stored.is_whole(wanted):
                    forget(part)
                    self.tell(FetchEvent(state="there", name=wanted.name))
                elif self.mirror.folder:
                    self._copy(wanted, self.mirror.folder)
                else:
                    self._download(wanted, part)
        except OSError as error:
            raise not_stored(part, error) from error

    @contextmanager
    def _alone(self, lock: Path, wanted: WantedFile) -> Iterator[None]:
        with exclusive_now(lock) as free:
            if free:
                yield
                return
        self.tell(FetchEvent(state="waiting", name=wanted.name))
        with exclusive_in_thread(lock):
            yield

    def _copy(self, wanted: WantedFile, folder: Path) -> None:
        """Add a file of the mirror's folder; raises UserError."""
        with readable(wanted.entries[0].key):
            candidates = list(self.mirror.files(wanted))
            found = next((path for path in candidates if _fits(path, wanted)), None)
            links = "" if candidates else not_followed(folder)
        if found is None:
            seen = "its content differs there" if candidates else f"it is not there{links}"
            raise NotServed(f"fetch {wanted.name} from {folder}", seen, wanted.by_hand)
        self._teller(wanted)(0, found.stat().st_size)
        self._enter(found, wanted, self.store.add)

    def _download(self, wanted: WantedFile, part: Path) -> None:
        """Download a file, check it and move it into the store; raises UserError."""
        failure: UserError | None = None
        for url in self.mirror.urls(wanted):
            try:
                with self._connected(url):
                    self._download_from(url, wanted, part)
                    self._take(part, wanted)
            except ContentDiffers as error:
                failure = error
            except NotServed as error:  # which says less
                failure = failure if isinstance(failure, ContentDiffers) else error
            else:
                return
        assert failure is not None
        raise failure

    def _download_from(self, url: str, wanted: WantedFile, part: Path) -> None:
        """Download a file and check it; raises UserError."""
        known, tell = wanted.checksum is not None, self._teller(wanted)
        for anew in (False, True):
            pieces = download(self.client, url, part, self.limits, tell, known=known)
            if _fits(part, wanted):
                return
            seen = digests(part)
            forget(part)
            if anew or not pieces:  # the pieces of a file may be of two versions of it
                break
        assert wanted.checksum is not None
        found = seen[wanted.checksum.partition(":")[0]]
        raise ContentDiffers(
            f"fetch {wanted.name}",
            f"what {httpx.URL(url).host} has is {found}, not {wanted.checksum}; it was deleted",
            "Use --from with a mirror of the published file.",
        )

    def _take(self, part: Path, wanted: WantedFile) -> None:
        """Move a whole download into the store, or delete it; raises UserError."""
        try:
            self._enter(part, wanted, self.store.take)
        except FileUnreadable:  # of the store, which is no fault of the download
            raise
        except UserError:
            forget(part)  # else the next fetch would find it whole, and refuse it again
            raise
        forget(part)  # the note beside it

    def _enter(
        self, path: Path, wanted: WantedFile, take: Callable[[Path], dict[str, str]]
    ) -> None:
        """Check a file by each task it is for, and put it into the store; raises UserError."""
        for entry in wanted.entries:
            require_fit(path, entry)
            if not entry.is_model and not wanted.checksum:
                require_part(self.store, path, entry)
            if not wanted.checksum:
                self._require_pinned(path, entry.key)
        size, found = path.stat().st_size, take(path)
        for entry in wanted.entries:
            if not wanted.checksum:
                self.store.pin(entry.key, found["sha256"])
        note = "" if wanted.checksum else f"pinned {found['sha256']}: no checksum is published"
        event = FetchEvent(state="added", name=wanted.name, done=size, total=size, note=note)
        self.tell(event)

    def _require_pinned(self, path: Path, key: str) -> None:
        """Raise ContentDiffers if a file without a published checksum is another one than the
        store has had."""
        with readable(key):
            pinned = self.store.pinned(key)
        if pinned and (found := digests(path)["sha256"]) != pinned:
            raise ContentDiffers(
                f"fetch {key}",
                f"it is {found} there, and the one added before was {pinned}",
                f"Add the one that is meant with `benchfarm models add FILE --as {key}`.",
            )

    def _teller(self, wanted: WantedFile) -> Callable[[int, int | None], None]:
        """Return what tells the progress of a file that is loading."""
        note = f"licence: {wanted.licence or 'not known'}"
        return teller(self.tell, FetchEvent(state="loading", name=wanted.name, note=note))

    @property
    def stored(self) -> StoredFiles:
        """What the store has."""
        return StoredFiles(self.store, self.tell)

    @contextmanager
    def _connected(self, url: str) -> Iterator[None]:
        """Remember a host to which there is no connection; raises Unreachable at once for it."""
        host = httpx.URL(url).host
        if known := self.unreachable.get(host):
            raise known
        try:
            yield
        except Unreachable as error:
            self.unreachable[host] = error
            raise


def _fits(path: Path, wanted: WantedFile) -> bool:
    return wanted.checksum is None or wanted.checksum in digests(path).values()
