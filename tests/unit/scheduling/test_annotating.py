"""Tags and notes of a sweep: what each change makes of them, and what is refused."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from controller.contracts.annotations import (
    MAX_NOTES,
    MAX_TAGS,
    NoteRequest,
    SweepAnnotations,
    TagRequest,
)
from controller.contracts.errors import NotFound, UserError
from controller.contracts.wording import faults_of
from controller.scheduling.annotating import tagged, with_note, without_note

NONE = SweepAnnotations(sweep_id="quick-1")


def test_tags_are_sorted_and_each_is_there_once() -> None:
    now = tagged(NONE, TagRequest(add=("v2", "paper", "v2")))
    assert now.tags == ("paper", "v2")
    assert tagged(now, TagRequest(add=("paper",))) == now
    assert tagged(now, TagRequest(remove=("v2",), add=("v3",))).tags == ("paper", "v3")
    assert NONE.tags == ()


def test_a_tag_that_is_not_there_is_not_removed() -> None:
    now = tagged(NONE, TagRequest(add=("paper",)))
    with pytest.raises(NotFound) as caught:
        tagged(now, TagRequest(remove=("papre",)))
    assert str(caught.value) == (
        "cannot remove tag papre from sweep quick-1: it has none of that name. Its tags: paper."
    )


def test_numbers_of_notes_are_never_given_again() -> None:
    two = with_note(with_note(NONE, "one", "ann", 1.0), "two", "ben", 2.0)
    three = with_note(without_note(two, 2), "three", "ann", 3.0)
    assert [(n.number, n.text, n.who, n.at) for n in three.notes] == [
        (1, "one", "ann", 1.0),
        (3, "three", "ann", 3.0),
    ]
    with pytest.raises(NotFound, match=r"it has no such note\. Its notes: 1, 3\."):
        without_note(three, 2)


def test_there_is_a_most_of_each() -> None:
    full = tagged(NONE, TagRequest(add=tuple(f"t{n}" for n in range(MAX_TAGS))))
    with pytest.raises(UserError, match=f"{MAX_TAGS + 1} tags, and {MAX_TAGS} is the most"):
        tagged(full, TagRequest(add=("more",)))
    noted = NONE
    for number in range(MAX_NOTES):
        noted = with_note(noted, f"note {number}", "ann", 1.0)
    with pytest.raises(UserError, match=f"it has {MAX_NOTES} notes"):
        with_note(noted, "more", "ann", 1.0)


@pytest.mark.parametrize(
    "tag",
    ["", "A", "a b", "a\n", "a\x1b[31m", "=cmd", "-x", "+1", "@x", "ä", "<b>", "a" * 65, "\ud800"],
)
def test_a_tag_is_a_short_word(tag: str) -> None:
    with pytest.raises(ValidationError) as caught:
        TagRequest(add=(tag,))
    assert (
        "1 to 64 lower-case letters" in (said := faults_of(caught.value)[0].said) or "text" in said
    )


@pytest.mark.parametrize("text", ["", "a\nb", "a\x1b[31m", "x" * 1001, "x" * 2**20, "\ud800"])
def test_a_note_is_one_line(text: str) -> None:
    with pytest.raises(ValidationError):
        NoteRequest(text=text)
