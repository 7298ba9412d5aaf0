from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.platform.frames import (
    FRAME_BYTES,
    HEADER,
    LONGEST,
    FrameDamaged,
    packed,
    unpacked,
)
from tests.support.artefacts import noise


@pytest.mark.parametrize("content", [b"a", bytes(FRAME_BYTES), noise(FRAME_BYTES)])
def test_a_frame_has_its_content_and_fits_a_message(content: bytes) -> None:
    frame = packed(content)
    assert unpacked(frame) == content
    assert len(frame) <= HEADER.size + LONGEST < 100 * 1024


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.integers(0, 10**9), st.integers(1, 255))
def test_a_damaged_byte_anywhere_is_seen(place: int, change: int) -> None:
    content = b"step 1 took 0.25 s\n" * 50
    frame = bytearray(packed(content))
    frame[place % len(frame)] ^= change
    with suppress(FrameDamaged):  # some bytes of Zstandard's own header mean nothing
        assert unpacked(bytes(frame)) == content


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\0" * 11,
        HEADER.pack(0, 1, 0),
        HEADER.pack(5, FRAME_BYTES + 1, 0) + b"abcde",
        HEADER.pack(2**32 - 1, 2**32 - 1, 0),
        HEADER.pack(4, 10, 0) + b"\x28\xb5\x2f\xfd",
        packed(b"abc")[:-1],
        packed(b"abc") + b"x",
        HEADER.pack(len(packed(b"abc")) - HEADER.size, 2, 0) + packed(b"abc")[HEADER.size :],
        HEADER.pack(len(packed(b"abc")) - HEADER.size, 4, 0) + packed(b"abc")[HEADER.size :],
    ],
)
def test_what_is_no_frame_is_refused(frame: bytes) -> None:
    with pytest.raises(FrameDamaged):
        unpacked(frame)
