from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.sending import MOST_STALLS, PART_FRAMES, Sending, Step, next_step, sizes_of_part
from controller.contracts.artefacts import ArtefactReceipt
from controller.platform.frames import FRAME_BYTES


@pytest.mark.parametrize(
    ("receipt", "step"),
    [
        (ArtefactReceipt(), Step.SEND),
        (ArtefactReceipt(held=5), Step.SEND),
        (ArtefactReceipt(held=9, whole=True), Step.DONE),
        (ArtefactReceipt(refused="no"), Step.REFUSED),
        (ArtefactReceipt(refused="no", damaged=True), Step.DAMAGED),
        (ArtefactReceipt(later_s=2.0), Step.WAIT),
    ],
)
def test_the_head_s_answer_says_what_is_next(receipt: ArtefactReceipt, step: Step) -> None:
    assert next_step(Sending(), receipt)[1] is step


def test_waiting_is_no_stall() -> None:
    sending = Sending(7)
    for _ in range(3 * MOST_STALLS):
        sending, step = next_step(sending, ArtefactReceipt(later_s=1.0))
        assert (sending, step) == (Sending(7), Step.WAIT)


def test_parts_that_add_nothing_end_it_and_one_that_does_begins_the_count_again() -> None:
    sending, _ = next_step(Sending(), ArtefactReceipt(held=8))
    steps = []
    for _ in range(MOST_STALLS - 1):
        sending, step = next_step(sending, ArtefactReceipt(held=8))
        steps.append(step)
    assert {*steps} == {Step.SEND}
    assert next_step(sending, ArtefactReceipt(held=9)) == (Sending(9), Step.SEND)
    assert next_step(sending, ArtefactReceipt(held=8))[1] is Step.STALLED


def test_a_head_that_has_lost_what_it_held_is_sent_it_again() -> None:
    sending, step = next_step(Sending(10**9), ArtefactReceipt(held=0))
    assert (sending.held, step) == (0, Step.SEND)


@given(st.integers(0, 10**7))
def test_parts_have_all_of_a_file_once(size: int) -> None:
    held = 0
    while held < size:
        sizes = sizes_of_part(held, size)
        assert 0 < len(sizes) <= PART_FRAMES
        assert {*sizes[:-1]} <= {FRAME_BYTES}
        assert sizes[-1] == FRAME_BYTES or held + sum(sizes) == size
        held += sum(sizes)
    assert held == size
    assert sizes_of_part(size, size) == []
