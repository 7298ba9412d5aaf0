"""Tags and notes of sweeps over the real HTTP interface: who may, at once, and what stays."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

import pytest

from controller.contracts.annotations import (
    AnnotationChange,
    NoteRemoval,
    NoteRequest,
    SweepAnnotations,
    TagRequest,
)
from controller.contracts.errors import NotAllowed, NotFound, UserError
from controller.runtime.client import FarmClient
from tests.support import builders
from tests.unit.runtime.test_access import ADMIN_TOKEN, served

CHANGES: list[AnnotationChange] = [
    TagRequest(add=("x",)),
    NoteRequest(text="x"),
    NoteRemoval(number=1),
]


async def annotate(client: FarmClient, sweep_id: str, change: AnnotationChange) -> SweepAnnotations:
    return await asyncio.to_thread(client.annotate, sweep_id, change)


async def test_the_owner_and_the_administrator_may_and_no_other(tmp_path: Path) -> None:
    async with served(tmp_path) as there:
        ann, ben = await there.new_user("ann"), await there.new_user("ben")
        admin = there.client(ADMIN_TOKEN)
        sweep_id = (await asyncio.to_thread(ann.submit, builders.sweep())).sweep_id
        assert (await annotate(ann, sweep_id, TagRequest(add=("paper",)))).tags == ("paper",)
        noted = await annotate(ann, sweep_id, NoteRequest(text="the fan was replaced"))
        assert [(n.who, n.at) for n in noted.notes] == [("ann", there.box.clock.now)]
        await annotate(admin, sweep_id, NoteRequest(text="seen"))
        before = there.box.store.annotations()
        for change in CHANGES:
            with pytest.raises((NotAllowed, NotFound)):
                await annotate(ben, sweep_id, change)
        assert there.box.store.annotations() == before
        status = await asyncio.to_thread(ann.sweep_status, sweep_id)
        assert (status.tags, [n.who for n in status.notes]) == (("paper",), ["ann", "admin"])


async def test_who_write_at_once_lose_nothing(tmp_path: Path) -> None:
    async with served(tmp_path) as there:
        ann, admin = await there.new_user("ann"), there.client(ADMIN_TOKEN)
        sweep_id = (await asyncio.to_thread(ann.submit, builders.sweep())).sweep_id
        await asyncio.gather(
            *(annotate(who, sweep_id, NoteRequest(text="x")) for who in (ann, admin) * 8),
            *(annotate(admin, sweep_id, TagRequest(add=(f"t{n}",))) for n in range(8)),
        )
        now = there.box.store.annotations()[sweep_id]
        assert [note.number for note in now.notes] == list(range(1, 17))
        assert len(now.tags) == 8


async def test_they_outlast_a_restart_and_change_nothing_that_was_measured(tmp_path: Path) -> None:
    async with served(tmp_path) as there:
        box, admin = there.box, there.client(ADMIN_TOKEN)
        sweep_id = (await asyncio.to_thread(admin.submit, builders.sweep())).sweep_id
        box.report(box.ask().run[0].ref, builders.result())
        sealed = box.store.sound_rows()
        await annotate(admin, sweep_id, TagRequest(add=("paper",)))
        await annotate(admin, sweep_id, NoteRequest(text="after its end"))
        rows = box.store.sound_rows()
        changed = [table.name for table in rows if rows[table] != sealed[table]]
        assert changed == ["sweep_annotations"]
        (result,) = box.store.results()
        assert result.tags == ("paper",)
        assert box.store.damage() == []
        kept = box.store.annotations()
        box.restart()
        assert box.store.annotations() == kept


async def test_damaged_ones_are_kept_for_salvage_and_harm_no_other_sweep(tmp_path: Path) -> None:
    async with served(tmp_path) as there:
        box, admin = there.box, there.client(ADMIN_TOKEN)
        sweep_id = (await asyncio.to_thread(admin.submit, builders.sweep())).sweep_id
        box.report(box.ask().run[0].ref, builders.result())
        await annotate(admin, sweep_id, NoteRequest(text="first"))
        with sqlite3.connect(tmp_path / "store.sqlite") as file:
            file.execute("UPDATE sweep_annotations SET tags = '[\"planted\"]'")
        (result,) = box.store.results()
        assert (result.tags, box.store.damage()) == ((), [])
        for change in (NoteRequest(text="second"), TagRequest(add=("t",)), NoteRemoval(number=1)):
            with pytest.raises(UserError, match="they are damaged in the store"):
                await annotate(admin, sweep_id, change)
        with sqlite3.connect(tmp_path / "store.sqlite") as file:
            assert "first" in str(file.execute("SELECT * FROM sweep_annotations").fetchall())


class _Hostile(AnnotationChange):
    """A body that the command line would not send."""

    PATH = "notes"
    text: object


@pytest.mark.parametrize("text", ["a\nb", "\x1b[2J", "x" * 900_000, "x" * 2**20, 3, None, ["x"]])
async def test_a_hostile_note_is_one_short_line(tmp_path: Path, text: object) -> None:
    async with served(tmp_path) as there:
        admin = there.client(ADMIN_TOKEN)
        sweep_id = (await asyncio.to_thread(admin.submit, builders.sweep())).sweep_id
        with pytest.raises(UserError) as caught:
            await annotate(admin, sweep_id, _Hostile(text=text))
        assert "\n" not in str(caught.value)
        assert len(str(caught.value)) < 400
        assert there.box.store.annotations() == {}
