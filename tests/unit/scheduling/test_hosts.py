"""Which hosts train together, and what their outcomes make of the run."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from controller.contracts.device import Device
from controller.contracts.errors import NoMatchingDevice, SweepInvalid
from controller.contracts.result import Measurement, Validity
from controller.contracts.run import AttemptState, Partner, PartnerVerdict, Run
from controller.contracts.units import Unit
from controller.contracts.waiting import WaitReason
from controller.scheduling.binding import place_cells
from controller.scheduling.expansion import cells_of
from controller.scheduling.hosts import of_all_hosts, too_few_hosts, verdict_of
from controller.scheduling.lifecycle import Granted, PartnerMeasured, Reported, advance
from controller.scheduling.placement import place
from controller.scheduling.policy import RetryPolicy
from controller.scheduling.queued import QueuedRuns
from controller.scheduling.waiting import Queue, waiting
from tests.support import builders
from tests.support.hosts import registered, several_hosts_catalog

CATALOG = several_hosts_catalog()
VERDICT = PartnerVerdict(validity=Validity.VALID)


def server(name: str, model: str = "a") -> Device:
    return builders.cpu(name, facts={"cpu_model": model, "hostname": name})


def wide(run_id: str = "wide", hosts: int = 2) -> Run:
    return builders.run(run_id, of=builders.cell(ranks=hosts, hosts=hosts))


def placed(
    queued: Sequence[Run], free: Sequence[Device], busy: dict[str, set[int]] | None = None
) -> list[tuple[str, str]]:
    host_of = {device.id: f"host of {device.id}" for device in free}
    found = place(QueuedRuns.of(queued, {}), free, busy or {}, host_of, CATALOG)
    return [(run.run_id, device.id) for run, device in found]


def test_a_run_gets_all_its_hosts_or_none() -> None:
    free = [server("cpu-1"), server("cpu-2"), server("cpu-3")]
    assert placed([wide()], free) == [("wide", "cpu-1"), ("wide", "cpu-2")]
    assert placed([wide()], free[:1]) == []
    assert placed([wide(hosts=4)], free) == []


def test_what_a_run_does_not_get_goes_to_the_next_one() -> None:
    free = [server("cpu-1"), server("cpu-2"), server("cpu-3")]
    assert placed([wide(hosts=4), builders.run("one")], free) == [("one", "cpu-1")]
    both = placed([wide(), builders.run("one")], free)
    assert both == [("wide", "cpu-1"), ("wide", "cpu-2"), ("one", "cpu-3")]
    assert placed([wide("a"), wide("b")], free) == [("a", "cpu-1"), ("a", "cpu-2")]


def test_only_like_hosts_train_together() -> None:
    free = [server("cpu-1", "a"), server("cpu-2", "b"), server("cpu-3", "b"), builders.phone()]
    assert placed([wide()], free) == [("wide", "cpu-2"), ("wide", "cpu-3")]
    assert placed([wide()], free[:2]) == []


def test_like_hosts_have_as_many_cpus_to_use() -> None:
    one, other, half = (
        builders.cpu(f"cpu-{n}", cores=frozenset(cores), facts={"cpu_model": "a"})
        for n, cores in enumerate([{0, 1}, {2, 3}, {0}])
    )
    assert placed([wide()], [half, one, other]) == [("wide", "cpu-0"), ("wide", "cpu-1")]
    assert placed([wide()], [half, one]) == []


def test_a_host_whose_cores_are_in_use_is_not_taken() -> None:
    free = [server("cpu-1"), server("cpu-2")]
    assert placed([wide()], free, {"host of cpu-2": {0}}) == []


def test_hosts_that_failed_a_run_are_taken_last() -> None:
    failed = builders.attempt("cpu-1", 1, AttemptState.FAILED)
    run = wide().model_copy(update={"attempts": (failed,)})
    free = [server("cpu-1"), server("cpu-2"), server("cpu-3")]
    assert placed([run], free) == [("wide", "cpu-2"), ("wide", "cpu-3")]


def test_of_a_run_that_failed_on_several_hosts_each_is_taken_last() -> None:
    failed = builders.attempt("cpu-1", 1, AttemptState.FAILED).model_copy(
        update={"partners": (Partner(device_id="cpu-2", agent_id="b", incarnation="first"),)}
    )
    run = wide().model_copy(update={"attempts": (failed,)})
    free = [server(f"cpu-{number}") for number in (1, 2, 3, 4)]
    assert placed([run], free) == [("wide", "cpu-3"), ("wide", "cpu-4")]
    left = {name for _, name in placed([run], free[:3])}
    assert "cpu-3" in left, "one that has not failed it, and one that has"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"knobs": {"ranks": 3, "hosts": 2}}, "ranks=3 can't be spread evenly over 2 hosts"),
        ({"knobs": {"hosts": 2}}, "ranks=1 can't be spread evenly over 2 hosts"),
        ({"knobs": {"ranks": 2, "hosts": 2}, "run_on": "each"}, "chosen together"),
    ],
)
def test_a_sweep_that_spreads_nothing_evenly_is_refused(
    changes: dict[str, object], said: str
) -> None:
    with pytest.raises(SweepInvalid, match=said) as caught:
        cells_of(builders.sweep(**changes), CATALOG)
    assert "\n" not in str(caught.value)


def test_a_cell_on_one_host_has_the_key_of_before() -> None:
    (one,) = cells_of(builders.sweep(knobs={"ranks": 2, "hosts": 1}), CATALOG)
    (same,) = cells_of(builders.sweep(knobs={"ranks": 2}), CATALOG)
    (other,) = cells_of(builders.sweep(knobs={"ranks": 2, "hosts": 2}), CATALOG)
    assert one.key == same.key != other.key
    assert "hosts" not in one.knobs


def test_too_few_hosts_are_told_at_once_and_while_it_waits() -> None:
    sweep = builders.sweep(knobs={"ranks": 2, "hosts": 2})
    (cell,) = cells_of(sweep, CATALOG)
    unlike = [server("cpu-1", "a"), server("cpu-2", "b")]
    said = "hosts=2 needs 2 hosts alike; 2 hosts fit, of which 1 are alike"
    assert too_few_hosts(cell, unlike) == said
    with pytest.raises(NoMatchingDevice, match=said):
        place_cells(sweep, [cell], unlike, CATALOG)
    assert place_cells(sweep, [cell], [server("cpu-1"), server("cpu-2")], CATALOG) == [cell]

    queue = Queue(0.0, [wide()], [registered(device) for device in unlike])
    found = waiting(queue, CATALOG)["wide"]
    assert (found.reason, found.words) == (WaitReason.NO_MATCH, f"no device fits: {said}")


def test_a_run_waits_for_the_last_of_its_hosts() -> None:
    devices = [registered(server("cpu-1")), registered(server("cpu-2"))]
    grant = Granted("cpu-1", "host of cpu-1", "first")
    busy = advance(builders.run("one"), grant, 1.0, RetryPolicy()).run
    found = waiting(Queue(2.0, [busy, wide()], devices), CATALOG)["wide"]
    assert (found.reason, found.device, found.run_id) == (WaitReason.BUSY, "cpu-1", "one")
    found = waiting(Queue(2.0, [wide()], devices), CATALOG)["wide"]
    assert (found.reason, found.device) == (WaitReason.STARTS, "cpu-1")


def granted() -> Run:
    partner = Partner(device_id="cpu-2", agent_id="host-2", incarnation="first")
    grant = Granted("cpu-1", "host-1", "first", (partner,))
    return advance(wide(), grant, 1.0, RetryPolicy()).run


def test_a_lease_is_of_all_hosts_until_each_has_reported() -> None:
    run = granted()
    assert run.lease
    assert run.lease.device_ids == {"cpu-1", "cpu-2"}
    assert run.lease.place_of("host-2")
    done = advance(run, PartnerMeasured(1, "host-2", VERDICT), 2.0, RetryPolicy()).run
    assert done.lease
    assert done.lease.place_of("host-2") is None, "it has nothing more to do"
    assert done.lease.device_ids == {"cpu-1", "cpu-2"}, "both are kept until the end"
    ended = advance(done, Reported(1, builders.result(), 1.0), 3.0, RetryPolicy()).run
    assert ended.lease is None
    late = advance(ended, PartnerMeasured(1, "host-2", VERDICT), 4.0, RetryPolicy())
    assert late.run == ended


def test_a_result_is_as_valid_as_the_worst_of_its_hosts() -> None:
    lead = builders.result().model_copy(update={"environment": {"torch": "2.1"}})
    energy = Measurement(value=1.0, unit=Unit.JOULES_PER_STEP)
    lead = lead.model_copy(update={"metrics": {**lead.metrics, "energy": energy}})
    disturbed = lead.model_copy(update={"validity": Validity.DISTURBED, "reasons": ("load",)})

    def judged(partner: PartnerVerdict) -> tuple[Validity, tuple[str, ...]]:
        run = advance(granted(), PartnerMeasured(1, "host-2", partner), 2.0, RetryPolicy()).run
        assert run.lease
        found = of_all_hosts(lead, run.lease, {"host-2": "b"})
        assert "energy" not in found.metrics, "that of one host is not the run's"
        return found.validity, found.reasons

    assert judged(verdict_of(lead)) == (Validity.VALID, ())
    assert judged(verdict_of(disturbed)) == (Validity.DISTURBED, ("on host b: load",))
    newer = verdict_of(lead.model_copy(update={"environment": {"torch": "2.2"}}))
    unlike = "host b ran torch 2.2, its lead 2.1"
    assert judged(newer) == (Validity.INVALID, (unlike,))
    alone = builders.attempt("cpu-1", 1, AttemptState.LEASED)
    assert of_all_hosts(lead, alone, {}) == lead
