"""The origin of a published data set: the checksums that vouch for the files used of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter

from controller.contracts.base import Contract
from controller.contracts.documents import load_yaml, read_limited
from controller.contracts.errors import UserError
from controller.contracts.mobile import Checksum
from controller.contracts.models import SetName
from models.mobile.preparing.archives import BROKEN, SUFFIXES, members
from models.mobile.preparing.published import Published, Say, Used
from models.mobile.remedies import does_not_count
from models.mobile.store import CHUNK_BYTES, digests, digests_of

FILE: Final = Path(__file__).parents[2] / "manifests" / "published_sets.yaml"


class PublishedFile(Contract):
    """A file of a data set whose checksum is published."""

    file: str
    checksum: Checksum
    source: str
    """Where file and checksum are published."""

    @property
    def is_archive(self) -> bool:
        """Whether it vouches for its members; else for itself."""
        return self.file.endswith(SUFFIXES)

    @property
    def text(self) -> str:
        """The checksum with the file's name."""
        return f"{self.checksum} ({self.file})"


class PublishedSet(Contract):
    """The files that together vouch for each part; none: nobody has published a checksum."""

    samples: tuple[PublishedFile, ...] = ()
    truth: tuple[PublishedFile, ...] = ()

    def of(self, part: str) -> tuple[PublishedFile, ...]:
        """Return the files that vouch for a part, `samples` or `truth`."""
        return self.samples if part == "samples" else self.truth

    @property
    def archives(self) -> Mapping[str, PublishedFile]:
        """The archives by name."""
        return {one.file: one for one in (*self.samples, *self.truth) if one.is_archive}


PublishedSets = Mapping[SetName, PublishedSet]


@cache
def load_published_sets() -> PublishedSets:
    """Read the table of published checksums."""
    adapter = TypeAdapter(dict[SetName, PublishedSet])
    return adapter.validate_python(load_yaml(read_limited(FILE)))


@dataclass(frozen=True, slots=True)
class Vouchers:
    """The published archives below a set's folder, whose checksums are right."""

    published: Published
    known: PublishedSet
    there: Mapping[str, Path]

    @classmethod
    def found(cls, published: Published, known: PublishedSet, say: Say) -> Vouchers:
        """Check the archives that are there; raises UserError for one with another checksum."""
        there = published.files(*known.archives)
        for name, path in there.items():
            say(f"checking the checksum of {name}")
            wanted = known.archives[name]
            seen = digests(path)[wanted.checksum.partition(":")[0]]
            if seen != wanted.checksum:
                wrong = f"{name} is {seen}, not {wanted.checksum}"
                raise published.unusable(wrong, f"Get it again, or remove it: {wanted.source}.")
        return cls(published, known, there)

    def origins(self, used: Mapping[str, Used], say: Say) -> dict[str, str]:
        """Return the origin of each part that is vouched for.

        Raises UserError for a file that differs from its archive's.
        """
        return {
            part: ", ".join(one.text for one in self.known.of(part))
            for part, files in used.items()
            if files and self.known.of(part) and self._vouch(self.known.of(part), files, say)
        }

    def _vouch(self, known: tuple[PublishedFile, ...], files: Used, say: Say) -> bool:
        for one in known:
            if not one.is_archive:
                read = files.get(one.file)
                if read is None or one.checksum not in digests_of(_chunks(read())).values():
                    return False
            elif path := self.there.get(one.file):
                say(f"comparing {len(files)} files with {one.file}")
                self._compare(path, files)
            else:
                return False
        return True

    def _compare(self, archive: Path, files: Used) -> None:
        left = set(files)
        try:
            for member in members(archive):
                if member.name not in left:
                    continue
                left.remove(member.name)
                content = files[member.name]()
                same = member.size == len(content)
                with member.open() as packed:
                    same = same and all(c == packed.read(len(c)) for c in _chunks(content))
                if not same:
                    raise self._differs(f"{member.name} differs from that in {archive.name}")
        except BROKEN as error:
            seen = f"{archive.name}: {error}"
            raise self.published.unusable(seen, "Get the archive again.") from error
        if left:
            raise self._differs(f"{min(left)} is not in {archive.name}")

    def _differs(self, seen: str) -> UserError:
        return self.published.unusable(seen, "Unpack the archive again, or remove it.")

    def note(self, unknown: Sequence[str]) -> str:
        """Return what to tell of parts without an origin; empty if there are none."""
        if not unknown:
            return ""
        files = dict.fromkeys(one.text for part in unknown for one in self.known.of(part))
        remedy = f"Put {' and '.join(files)} below {self.published.path} and prepare it again."
        nothing = "Nobody has published a checksum of it."
        return does_not_count(" and ".join(unknown), remedy if files else nothing)


def _chunks(content: bytes) -> Iterator[bytes]:
    return (content[at : at + CHUNK_BYTES] for at in range(0, len(content), CHUNK_BYTES))
