"""A farm whose runs are on several hosts: leases, orders, reports, losses."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.contracts.errors import PartnersAwaited, UnknownAttempt
from controller.contracts.result import Blame, Validity
from controller.contracts.run import AttemptState, RunState
from controller.contracts.wire import COOL_DOWN, AttemptRef, Job, Orders, Progress
from tests.support import builders
from tests.support.farm import TTL_S, FarmBox
from tests.support.hosts import several_hosts_catalog

HOSTS = ("host-1", "host-2")
BEAT_S = 3.0


@pytest.fixture
def box(tmp_path: Path) -> Iterator[FarmBox]:
    box = FarmBox(tmp_path / "store.sqlite")
    box.catalog = several_hosts_catalog()
    box.restart()
    yield box
    box.close()


def join(box: FarmBox, host: str, incarnation: str = "first") -> None:
    address = f"10.0.0.{host[-1]}"
    agent = builders.agent(host, incarnation).model_copy(update={"address": address})
    box.farm.register(builders.registration(agent, builders.cpu(f"cpu-{host[-1]}")))


def wide(box: FarmBox, repeats: int = 1) -> dict[str, Job]:
    """Register two hosts, submit runs on both, and return the order of each for the first."""
    for host in HOSTS:
        join(box, host)
    sweep = builders.sweep(knobs={"ranks": 4, "hosts": 2}, repeats=repeats)
    box.submit(sweep)
    return {host: only(box.ask(agent=host)) for host in HOSTS}


def only(orders: Orders) -> Job:
    (job,) = orders.run
    return job


def lead_of(jobs: dict[str, Job]) -> tuple[AttemptRef, str, str]:
    """Return the attempt, its lead's agent and the other one."""
    (lead,) = (host for host, job in jobs.items() if job.leads)
    (other,) = {*HOSTS} - {lead}
    return jobs[lead].ref, lead, other


def test_each_host_is_told_its_share_and_where_to_meet(box: FarmBox) -> None:
    jobs = wide(box)
    first, second = jobs["host-1"], jobs["host-2"]
    assert first.ref == second.ref
    assert first.share
    assert second.share
    assert (first.share.hosts, first.share.port) == (second.share.hosts, second.share.port)
    assert sorted(job.share.index for job in jobs.values() if job.share) == [0, 1]
    for host, job in jobs.items():
        assert job.share
        own = job.share.hosts[job.share.index]
        assert (own.device_id, own.name, own.address) == (
            job.device_id,
            host,
            f"10.0.0.{host[-1]}",
        )
    busy = {status.state for status in box.farm.state().statuses.values()}
    assert busy == {"busy"}


def test_only_the_lead_tells_of_progress(box: FarmBox) -> None:
    ref, lead, other = lead_of(wide(box))
    cools = Progress(phase=COOL_DOWN, done=0, total=9)
    box.events.clear()
    box.tell(ref, cools, other)
    assert box.events == []
    assert box.run(ref.run_id).attempts[0].cooling is None
    box.tell(ref, cools, lead)
    assert [e.progress for e in box.events] == [cools]
    assert box.run(ref.run_id).attempts[0].cooling is True


def test_only_the_leads_files_are_the_runs(box: FarmBox) -> None:
    ref, lead, other = lead_of(wide(box))
    assert box.farm.run_led_by(lead, ref).run_id == ref.run_id
    with pytest.raises(UnknownAttempt):
        box.farm.run_led_by(other, ref)


def test_a_result_counts_when_all_hosts_have_reported(box: FarmBox) -> None:
    ref, lead, other = lead_of(wide(box))
    with pytest.raises(PartnersAwaited):
        box.report(ref, builders.result(), lead)
    disturbed = {"validity": Validity.DISTURBED, "reasons": ("load",)}
    said = builders.result().model_copy(update=disturbed)
    box.report(ref, said, other)
    box.report(ref, said, other)  # its answer may have been lost
    assert box.ask(agent=other) == Orders(), "it has done its share"
    box.wait(TTL_S / 2)
    box.ask(ref, agent=lead)
    box.wait(TTL_S / 2 + 1)
    assert box.run(ref.run_id).state is RunState.LEASED, "its lease has not run out"
    box.restart()
    box.ask(ref, agent=lead)
    box.report(ref, builders.result(), lead)
    run = box.run(ref.run_id)
    assert run.state is RunState.DONE
    (stored,) = box.store.results(run.sweep_id)
    assert (stored.device, stored.validity) == (run.attempts[0].device_id, Validity.DISTURBED)
    assert stored.reasons == (f"on host {other}: load",)


@pytest.mark.parametrize("leads", [True, False])
def test_the_failure_of_one_host_ends_the_run_on_all(box: FarmBox, leads: bool) -> None:
    ref, lead, other = lead_of(wide(box, repeats=2))
    fails, goes_on = (lead, other) if leads else (other, lead)
    box.report(ref, builders.failure(Blame.WORKLOAD), fails)
    run = box.run(ref.run_id)
    assert run.state is RunState.FAILED
    (failure,) = box.store.failures(run.sweep_id)
    assert failure.message == f"on host {fails}: it ended"
    told = box.ask(ref, agent=goes_on)
    assert told.stop == (ref,)
    assert only(told).ref != ref, "the next run has begun on both"
    assert only(box.ask(agent=fails)).ref == only(told).ref
    box.report(ref, builders.failure(Blame.HARNESS), goes_on)
    assert box.run(ref.run_id) == run, "what follows from a failure changes nothing"


def test_a_silent_host_ends_the_run_on_all(box: FarmBox) -> None:
    ref, lead, other = lead_of(wide(box))
    box.wait(TTL_S / 2)
    box.ask(ref, agent=lead)
    box.wait(TTL_S / 2)
    run = box.run(ref.run_id)
    assert run.state is RunState.QUEUED, "it is tried again"
    assert [attempt.state for attempt in run.attempts] == [AttemptState.FAILED]
    (failure,) = box.store.failures(run.sweep_id)
    assert f"host {other} was lost" in failure.message
    assert box.ask(ref, agent=lead).stop == (ref,)
    states = {status.state for status in box.farm.state().statuses.values()}
    assert states == {"ready", "lost"}


def test_a_lead_that_is_lost_ends_the_run_on_all(box: FarmBox) -> None:
    ref, lead, other = lead_of(wide(box))
    join(box, lead, "second")
    run = box.run(ref.run_id)
    assert run.attempts[0].state is AttemptState.LOST
    orders = box.ask(ref, agent=other)
    assert orders.stop == (ref,)
    assert only(orders).ref.attempt == 2, "all hosts are back, so that it is tried again"


def test_a_partner_that_starts_again_ends_the_run(box: FarmBox) -> None:
    ref, lead, other = lead_of(wide(box))
    join(box, other, "second")
    assert box.run(ref.run_id).attempts[0].state is AttemptState.FAILED
    assert box.ask(ref, agent=lead).stop == (ref,)


def test_both_hosts_are_free_after_a_cancellation(box: FarmBox) -> None:
    ref, lead, other = lead_of(wide(box))
    box.cancel(box.run(ref.run_id).sweep_id, "admin")
    assert box.ask(ref, agent=lead).stop == (ref,)
    assert box.ask(ref, agent=other).stop == (ref,)
    states = {status.state for status in box.farm.state().statuses.values()}
    assert states == {"ready"}


def _measured(box: FarmBox, ref: AttemptRef, seconds: float, *agents: str) -> None:
    """Let agents measure for so long and report, a run's lead last."""
    for _ in range(round(seconds / BEAT_S)):
        box.wait(BEAT_S)
        for agent in HOSTS:
            box.ask(*([ref] if agent in agents else []), agent=agent)
    for agent in agents:
        box.report(ref, builders.result(), agent)


@pytest.mark.parametrize("restarted", [False, True])
def test_each_host_of_a_run_counts_for_its_user_s_share(box: FarmBox, restarted: bool) -> None:
    """Admin trains on two hosts for 600 s, and Ben for 900 s on one: Ben has had less."""
    ref, lead, other = lead_of(wide(box))
    _measured(box, ref, 600.0, other, lead)
    box.submit(builders.sweep(name="single"), user="ben")
    single = only(box.ask()).ref
    for user in ("admin", "ben"):
        box.submit(builders.sweep(name=user, knobs={"ranks": 4, "hosts": 2}), user=user)
    if restarted:
        box.restart()
        for host in HOSTS:
            join(box, host)
    _measured(box, single, 900.0, "host-1")
    next_ = only(box.ask(agent="host-2")).ref
    sweep_id = box.run(next_.run_id).sweep_id
    assert box.farm.sweeps.sweep_status(sweep_id, "admin").user == "ben"
