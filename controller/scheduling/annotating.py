"""What becomes of a sweep's tags and notes when people change them. Pure."""

from __future__ import annotations

from controller.contracts.annotations import (
    MAX_NOTES,
    MAX_TAGS,
    Note,
    SweepAnnotations,
    TagRequest,
)
from controller.contracts.errors import NotFound, UserError


def tagged(now: SweepAnnotations, request: TagRequest) -> SweepAnnotations:
    """Return a sweep's annotations with changed tags.

    Raises NotFound for a tag to remove that it does not have, UserError for too many tags.
    """
    for tag in request.remove:
        if tag not in now.tags:
            seen = "it has none of that name"
            remedy = f"Its tags: {', '.join(now.tags) or 'none'}."
            raise NotFound(f"remove tag {tag} from sweep {now.sweep_id}", seen, remedy)
    tags = sorted({*now.tags} - {*request.remove} | {*request.add})
    if len(tags) > MAX_TAGS:
        seen = f"it would have {len(tags)} tags, and {MAX_TAGS} is the most"
        remedy = f"Remove some: `benchfarm sweep tag {now.sweep_id} --remove TAG`."
        raise UserError(f"tag sweep {now.sweep_id}", seen, remedy)
    return now.model_copy(update={"tags": tuple(tags)})


def with_note(now: SweepAnnotations, text: str, who: str, at: float) -> SweepAnnotations:
    """Return a sweep's annotations with another note; raises UserError if they are too many."""
    if len(now.notes) >= MAX_NOTES:
        seen = f"it has {len(now.notes)} notes, and more are not kept"
        remedy = f"Remove one: `benchfarm sweep note {now.sweep_id} --remove NUMBER`."
        raise UserError(f"note this on sweep {now.sweep_id}", seen, remedy)
    note = Note(number=now.noted + 1, text=text, who=who, at=at)
    return now.model_copy(update={"notes": (*now.notes, note), "noted": note.number})


def without_note(now: SweepAnnotations, number: int) -> SweepAnnotations:
    """Return a sweep's annotations without a note; raises NotFound if there is no such note."""
    left = tuple(note for note in now.notes if note.number != number)
    if len(left) == len(now.notes):
        numbers = ", ".join(str(note.number) for note in now.notes) or "none"
        tried = f"remove note {number} of sweep {now.sweep_id}"
        raise NotFound(tried, "it has no such note", f"Its notes: {numbers}.")
    return now.model_copy(update={"notes": left})
