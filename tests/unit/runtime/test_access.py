"""Tokens of submitters, over the real HTTP interface: what each opens, and for how long."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from controller.contracts.administration import (
    FILES,
    BookRequest,
    ChangedDevice,
    NewBooking,
    NewToken,
    Reason,
    ReleaseRequest,
    StoredFiles,
    SweepStatus,
    TokenList,
    TokenRequest,
)
from controller.contracts.device import Registration
from controller.contracts.draining import AgentDrain, ChangedDrain
from controller.contracts.errors import NotAllowed, OverQuota, SweepInvalid, UserError
from controller.contracts.waiting import WaitReason
from controller.runtime.access import Access
from controller.runtime.api import BEAT_S, MAX_STREAMS, ApiOptions, serve_api, url_of
from controller.runtime.client import TOKEN_VARIABLE, FarmClient
from controller.runtime.feed import Feed
from controller.runtime.home import Home
from controller.runtime.options import URL_VARIABLE
from controller.runtime.shared_waits import KEEP_S
from controller.runtime.watch import follow_from_elsewhere
from controller.scheduling.device_life import Quarantined, Released
from tests.support import builders
from tests.support.farm import FarmBox

ADMIN_TOKEN = "0123"
WHY = Reason(why="it is loud")


class Served:
    """A farm of one server behind the interface, and clients with tokens."""

    def __init__(self, box: FarmBox, access: Access, url: str) -> None:
        self.box = box
        self.access = access
        self.url = url

    def client(self, token: str) -> FarmClient:
        nowhere = Home(Path("/nonexistent"))
        return FarmClient(nowhere, {URL_VARIABLE: self.url, TOKEN_VARIABLE: token})

    async def new_user(self, name: str) -> FarmClient:
        asked = TokenRequest(name=name)
        admin = self.client(ADMIN_TOKEN)
        made = await asyncio.to_thread(admin.administer, NewToken, "tokens", asked)
        return self.client(made.token)


@asynccontextmanager
async def served(
    folder: Path, max_streams: int = MAX_STREAMS, beat_s: float = BEAT_S
) -> AsyncIterator[Served]:
    feed, box = Feed(), FarmBox(folder / "store.sqlite")
    box.on_event = feed.publish
    box.farm.register(builders.registration())
    access = Access(box.store, ADMIN_TOKEN, box.clock)
    options = ApiOptions(
        access=access, metrics_token="4567", port=0, max_streams=max_streams, beat_s=beat_s
    )
    runner = await serve_api(box.farm, feed, list, options)
    try:
        yield Served(box, access, url_of(runner))
    finally:
        await runner.cleanup()
        box.close()


async def test_a_submitter_submits_watches_cancels_and_resumes_own_sweeps(tmp_path: Path) -> None:
    async with served(tmp_path) as there:
        ann, ben = await there.new_user("ann"), await there.new_user("ben")
        sweep_id = (await asyncio.to_thread(ann.submit, builders.sweep(repeats=2))).sweep_id
        assert there.box.store.sweeps()[0].user == "ann"
        for verb in (ben.cancel, ben.resume, ben.sweep_status):
            with pytest.raises(NotAllowed, match="another user's"):
                await asyncio.to_thread(verb, sweep_id)
        with pytest.raises(NotAllowed, match="another user's"):
            await asyncio.to_thread(lambda: next(follow_from_elsewhere(ben, sweep_id)))
        assert await asyncio.to_thread(ann.cancel, sweep_id) == 2
        assert await asyncio.to_thread(ann.resume, sweep_id) == 2

        watched = asyncio.create_task(
            asyncio.to_thread(lambda: list(follow_from_elsewhere(ann, sweep_id)))
        )
        for _ in range(2):
            while not (orders := there.box.ask()).run:
                await asyncio.sleep(0)
            there.box.report(orders.run[0].ref, builders.result())
        shown = await watched
        assert (shown[-1].runs["done"], shown[-1].all_met_rules) == (2, True)


async def test_what_runs_wait_for_is_told_again_without_an_event(tmp_path: Path) -> None:
    async with served(tmp_path, beat_s=0.01) as there:
        ann, box = await there.new_user("ann"), there.box
        box.farm.apply_event("cpu-1", Quarantined("admin", "it is loud"), "admin", "it is loud")
        sweep = builders.sweep(**{"await": True})
        sweep_id = (await asyncio.to_thread(ann.submit, sweep)).sweep_id
        told: asyncio.Queue[SweepStatus] = asyncio.Queue()
        loop = asyncio.get_running_loop()

        def watch() -> None:
            for status in follow_from_elsewhere(ann, sweep_id):
                loop.call_soon_threadsafe(told.put_nowait, status)

        watching = asyncio.create_task(asyncio.to_thread(watch))
        (first,) = (await told.get()).waiting
        assert first.first.reason is WaitReason.QUARANTINED
        box.farm.register(Registration(agent=builders.agent(), devices=()))
        box.farm.apply_event("cpu-1", Released(None), "admin", "it is quiet")
        box.clock.now += KEEP_S
        (second,) = (await told.get()).waiting
        assert second.first.reason is WaitReason.AWAY
        await asyncio.to_thread(ann.cancel, sweep_id)
        await watching
        assert told.qsize() == 1, "equal answers are told once"


async def test_a_submitter_listens_to_so_many_sweeps_and_submits_so_much_at_once(
    tmp_path: Path,
) -> None:
    async with served(tmp_path, max_streams=1) as there:
        ann, ben = await there.new_user("ann"), await there.new_user("ben")
        ids = [(await asyncio.to_thread(u.submit, builders.sweep())).sweep_id for u in (ann, ben)]

        def listen() -> None:
            with ann.events(ids[0]), ben.events(ids[1]):
                with pytest.raises(OverQuota, match="ann watches 1 already"):
                    ann.events(ids[0]).__enter__()
                assert ann.sweep_status(ids[0]).user == "ann"

        await asyncio.to_thread(listen)
        large = builders.sweep(description="x" * 9_999, knobs={"precision": ["x" * 90] * 2000})
        with pytest.raises(SweepInvalid, match=r"more than 131072 bytes\. Split it"):
            await asyncio.to_thread(ann.submit, large)


async def test_a_submitter_does_nothing_to_devices_agents_and_tokens(tmp_path: Path) -> None:
    booking = BookRequest(user="ann", for_s=60, why="me first")
    async with served(tmp_path) as there:
        ann = await there.new_user("ann")
        before = there.box.farm.state()
        for path, body in (
            ("devices/cpu-1/quarantine", WHY),
            ("devices/cpu-1/release", WHY),
            ("devices/cpu-1/probe", WHY),
            ("devices/cpu-1/book", booking),
            ("agents/host-1/revoke", WHY),
            ("agents/host-1/admit", WHY),
            ("tokens", TokenRequest(name="eve")),
            ("tokens/revoke", TokenRequest(name="ann")),
            ("tokens", None),
        ):
            with pytest.raises(NotAllowed, match="ann may only submit, watch and cancel sweeps"):
                await asyncio.to_thread(ann.administer, ChangedDevice, path, body)
        assert there.box.farm.state() == before
        assert [t.name for t in there.access.list()] == ["ann"]
        told = await asyncio.to_thread(
            there.client(ADMIN_TOKEN).administer, ChangedDevice, "devices/cpu-1/quarantine", WHY
        )
        assert (told.state, told.who, told.why) == ("quarantined", "admin", "it is loud")


async def test_bookings_are_for_known_users_and_a_release_ends_one_s_own(tmp_path: Path) -> None:
    async with served(tmp_path) as there:
        await there.new_user("ann")
        admin = there.client(ADMIN_TOKEN)

        def book(user: str | None, starts_in_s: float) -> NewBooking:
            asked = BookRequest(user=user, for_s=60, starts_in_s=starts_in_s, why="a paper")
            return admin.administer(NewBooking, "devices/cpu-1/book", asked)

        def release(*, everyone: bool) -> ChangedDevice:
            asked = ReleaseRequest(why="by hand", everyone=everyone)
            return admin.administer(ChangedDevice, "devices/cpu-1/release", asked)

        with pytest.raises(UserError, match=r"no user zoe\. Choose one of admin, ann, or run"):
            await asyncio.to_thread(book, "zoe", 0)
        later = await asyncio.to_thread(book, None, 3600)
        assert (later.booking.begins, later.booking.user, later.status.state) == (
            *(there.box.clock.now + 3600, None, "ready"),
        )
        assert (await asyncio.to_thread(book, "ann", 0)).status.state == "reserved"
        assert (await asyncio.to_thread(partial(release, everyone=False))).state == "reserved"
        (kept,) = there.box.farm.state().devices[0].life.bookings
        assert kept.user == "ann"
        assert (await asyncio.to_thread(partial(release, everyone=True))).state == "ready"


async def test_only_the_administrator_drains_an_agent_and_a_submitter_is_told_why(
    tmp_path: Path,
) -> None:
    async with served(tmp_path) as there:
        ann, admin = await there.new_user("ann"), there.client(ADMIN_TOKEN)
        sweep_id = (await asyncio.to_thread(ann.submit, builders.sweep(repeats=2))).sweep_id
        (job,) = there.box.ask().run
        for path, body in (("drain", WHY), ("undrain", WHY), ("drain", None)):
            with pytest.raises(NotAllowed):
                await asyncio.to_thread(ann.administer, ChangedDrain, f"agents/host-1/{path}", body)
        with pytest.raises(NotAllowed):
            await asyncio.to_thread(ann.administer, StoredFiles, FILES)
        assert (await asyncio.to_thread(admin.administer, StoredFiles, FILES)).files == {}
        assert there.box.farm.drains.now("host-1").draining is None
        begun = await asyncio.to_thread(admin.administer, ChangedDrain, "agents/host/drain", WHY)
        assert (begun.changed, begun.waiting, begun.now.agent_id) == (True, 1, "host-1")
        assert [(run.run_id, run.user) for run in begun.now.running] == [(job.ref.run_id, "ann")]
        (told,) = (await asyncio.to_thread(ann.sweep_status, sweep_id)).waiting
        assert (told.first.reason, told.first.user) == (WaitReason.DRAINING, "admin")
        assert told.said.endswith(", by admin: it is loud")
        there.box.report(job.ref, builders.result())
        now = await asyncio.to_thread(admin.administer, AgentDrain, "agents/host-1/drain")
        assert now.running == ()
        ended = await asyncio.to_thread(
            admin.administer, ChangedDrain, "agents/host-1/undrain", WHY
        )
        assert (ended.changed, len(there.box.ask().run)) == (True, 1)


async def test_a_revoked_token_opens_nothing_from_that_moment_on(tmp_path: Path) -> None:
    async with served(tmp_path) as there:
        ann = await there.new_user("ann")
        sweep_id = (await asyncio.to_thread(ann.submit, builders.sweep())).sweep_id

        listening = threading.Event()

        def listen() -> list[object]:
            with ann.events(sweep_id) as events:
                listening.set()
                return list(events)

        heard = asyncio.create_task(asyncio.to_thread(listen))
        await asyncio.to_thread(listening.wait)
        there.access.revoke("ann")
        there.access.create("ann")  # another token opens what it opens, not what the first did
        (job,) = there.box.ask().run
        there.box.report(job.ref, builders.result())
        assert await heard == [], "what was open is closed before it says more"
        for verb in (ann.cancel, ann.sweep_status):
            with pytest.raises(UserError, match="no valid token"):
                await asyncio.to_thread(verb, sweep_id)
        there.access.revoke("ann")
        again = await there.new_user("ann")
        assert (await asyncio.to_thread(again.sweep_status, sweep_id)).user == "ann"
        with pytest.raises(UserError, match="no valid token"):
            await asyncio.to_thread(ann.sweep_status, sweep_id)


async def test_tokens_are_listed_without_what_opens_anything(tmp_path: Path) -> None:
    async with served(tmp_path) as there:
        await there.new_user("ann")
        there.access.revoke("ann")
        admin = there.client(ADMIN_TOKEN)
        (listed,) = (await asyncio.to_thread(admin.administer, TokenList, "tokens")).tokens
    assert listed.model_dump() == {
        "name": "ann",
        "created_at": "1970-01-01T00:16:40.000+00:00",
        "revoked_at": "1970-01-01T00:16:40.000+00:00",
        "scope": "submitter",
    }


def test_tokens_are_stored_hashed_and_survive_a_restart(tmp_path: Path) -> None:
    box = FarmBox(tmp_path / "store.sqlite")
    access = Access(box.store, ADMIN_TOKEN, box.clock)
    kept, ended = access.create("ann").token, access.create("ben").token
    access.revoke("ben")
    box.restart()
    access = Access(box.store, ADMIN_TOKEN, box.clock)
    assert access.caller(f"Bearer {kept}") == "ann"
    assert access.caller(f"Bearer {ended}") is None
    assert access.caller(f"Bearer {ADMIN_TOKEN}") == "admin"
    for wrong in ("", "Bearer", "Bearer ", f"Basic {kept}", f"Bearer {kept}x", f"bearer{kept}"):
        assert access.caller(wrong) is None
    box.close()
    for file in tmp_path.iterdir():
        content = file.read_bytes()
        assert kept.encode() not in content
        assert ended.encode() not in content


@pytest.mark.parametrize("name", ["admin", "ann"])
def test_a_name_has_one_token_at_most(tmp_path: Path, name: str) -> None:
    box = FarmBox(tmp_path / "store.sqlite")
    access = Access(box.store, ADMIN_TOKEN, box.clock)
    access.create("ann")
    with pytest.raises(UserError, match="there is one already"):
        access.create(name)
    box.close()
