"""Files that a kernel with large pages refuses are told from those it loads."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from agents.inference.bundle.build import check_loadable
from agents.inference.bundle.elf import objections, oldest_kernel
from agents.inference.bundle.recipe import BundleUnbuildable, load_recipe

ARM64, PAGE = 183, 0x4000
LOAD, NOTE = 1, 4
Segment = tuple[int, int, int, int]
"""Kind, offset in the file, address, alignment."""
GOOD: tuple[Segment, ...] = (
    (LOAD, 0, 0, 0x4000),
    (LOAD, 0x610C, 0x1A10C, 0x10000),
    (NOTE, 0x610C, 0x7001, 4),
)


def elf(
    segments: tuple[Segment, ...] = GOOD, machine: int = ARM64, kind: bytes = b"\x02\x01"
) -> bytes:
    ident = b"\x7fELF" + kind + bytes(10)
    head = (ident, 3, machine, 1, 0, 64, 0, 0, 64, 56, len(segments), 0, 0, 0)
    table = [
        struct.pack("<IIQQQQQQ", what, 4, offset, address, address, 16, 16, align)
        for what, offset, address, align in segments
    ]
    return struct.pack("<16sHHIQQQIHHHHHH", *head) + b"".join(table)


def note(tag: tuple[int, int, int, int], before: bytes = b"") -> bytes:
    """A file whose notes end in an ABI tag: system (0 is Linux), major, minor, patch."""
    notes = before + struct.pack("<III4s4I", 4, 16, 1, b"GNU\0", *tag)
    head = elf(((LOAD, 0, 0, PAGE), (NOTE, 64 + 2 * 56, 0, 4)))
    sized = bytearray(head)
    struct.pack_into("<Q", sized, 64 + 56 + 32, len(notes))
    return bytes(sized) + notes


@pytest.mark.parametrize(
    ("content", "version"),
    [
        (note((0, 3, 7, 0)), (3, 7, 0)),
        (note((0, 3, 7, 0), struct.pack("<III4s20s", 4, 20, 3, b"GNU\0", b"x")), (3, 7, 0)),
        (note((0, 3, 7, 0), struct.pack("<III8s4s", 5, 1, 1, b"Zork\0", b"x")), (3, 7, 0)),
        (note((2, 3, 7, 0)), None),  # another system's
        (note((0, 3, 7, 0))[:-1], None),
        (note((0, 3, 7, 0), b"\xff" * 12), None),
        (elf(), None),
        (elf()[:-1], None),
        (b"#!/bin/sh\n", None),
    ],
)
def test_the_oldest_kernel_of_a_file_is_read_from_its_notes(
    tmp_path: Path, content: bytes, version: tuple[int, int, int] | None
) -> None:
    path = tmp_path / "libc.so.6"
    path.write_bytes(content)
    assert oldest_kernel(path) == version


def said(folder: Path, content: bytes) -> list[str]:
    path = folder / "lib.so"
    path.write_bytes(content)
    return list(objections(path, ARM64, PAGE))


@pytest.mark.parametrize("content", [elf(), b"", b"#!/bin/sh\n", b"\x7fEL"])
def test_what_can_be_loaded_and_what_is_no_elf_file_is_left_alone(
    tmp_path: Path, content: bytes
) -> None:
    assert said(tmp_path, content) == []


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (elf(machine=62), "it is for machine 62, not 183"),
        (elf(((LOAD, 0, 0x2000, 0x1000),)), "at 0x2000 is not aligned for pages of 16384 bytes"),
        (elf(((LOAD, 0, 0, 0),)), "at 0x0 is not aligned for pages of 16384 bytes"),
        (elf((*GOOD, (LOAD, 0x1000, 0x8000, 0x4000))), "at 0x8000 is not aligned"),
        (elf(kind=b"\x01\x01"), "no 64-bit little-endian"),
        (elf(kind=b"\x02\x02"), "no 64-bit little-endian"),
        (elf()[:40], "no 64-bit little-endian"),
        (elf()[:-1], "cut short"),
    ],
)
def test_each_fault_is_named(tmp_path: Path, content: bytes, words: str) -> None:
    (objection,) = said(tmp_path, content)
    assert words in objection


def test_a_bundle_with_one_such_file_is_not_built(tmp_path: Path) -> None:
    recipe = load_recipe("litert", "arm64-v8a")
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/good.so").write_bytes(elf())
    check_loadable(recipe, tmp_path)
    (tmp_path / "lib/small_pages.so").write_bytes(elf(((LOAD, 0, 0, 0x1000),)))
    with pytest.raises(BundleUnbuildable, match=r"lib/small_pages\.so in bundle .*16384 bytes"):
        check_loadable(recipe, tmp_path)
