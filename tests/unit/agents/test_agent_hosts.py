"""The agents of two hosts that train together: what each of them tells the controller."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from agents.artefact_queue import ArtefactQueue
from controller.contracts.result import Validity
from controller.contracts.run import RunState
from controller.contracts.wire import Progress
from tests.support import builders
from tests.support.farm import FarmBox
from tests.support.hosts import several_hosts_catalog
from tests.support.memory_link import MemoryLink
from tests.unit.agents.test_agent import Bench, host_agent

HOSTS = ("host-1", "host-2")


@pytest.fixture
def box(tmp_path: Path) -> Iterator[FarmBox]:
    box = FarmBox(tmp_path / "store.sqlite")
    box.catalog = several_hosts_catalog()
    box.restart()
    yield box
    box.close()


async def test_only_the_lead_tells_of_progress_and_files_and_waits_for_the_other(
    tmp_path: Path, box: FarmBox
) -> None:
    links, benches = {host: MemoryLink(box) for host in HOSTS}, {host: Bench() for host in HOSTS}
    agents = [
        host_agent(
            *(links[host], benches[host], tmp_path / host, builders.agent(host)),
            device=builders.cpu(f"cpu-{host}"),
        )
        for host in HOSTS
    ]
    lives = [asyncio.create_task(agent.serve()) for agent in agents]
    for agent in agents:
        await agent.registered.wait()
    sweep_id = box.submit(builders.sweep(knobs={"ranks": 2, "hosts": 2})).sweep_id
    specs = {host: await benches[host].started.get() for host in HOSTS}
    (lead,) = (host for host, spec in specs.items() if spec.job.leads)
    (other,) = {*HOSTS} - {lead}
    ref = specs[lead].job.ref
    for host in HOSTS:
        benches[host].tell(Progress(phase="training", done=1, total=9))
    while "progress" not in links[lead].said:
        await asyncio.sleep(0)

    benches[lead].running[ref].set_result(builders.result())
    while links[lead].said.count("report") < 2:  # it is sent again
        await asyncio.sleep(0)
    assert box.run(ref.run_id).state is RunState.LEASED
    disturbed = {"validity": Validity.DISTURBED, "reasons": ("load",)}
    benches[other].running[ref].set_result(builders.result().model_copy(update=disturbed))
    for host in HOSTS:
        await links[host].reported.get()
    (stored,) = box.store.results(sweep_id)
    assert (stored.validity, stored.reasons) == (
        Validity.DISTURBED,
        (f"on host {other}: load",),
    )
    assert "progress" not in links[other].said
    assert "offer_artefact" not in links[other].said
    assert ArtefactQueue(tmp_path / other / "unsent").pending() == []
    for life in lives:
        life.cancel()
    await asyncio.gather(*lives, return_exceptions=True)
