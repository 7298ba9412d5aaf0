"""One cell on one virtual phone: real adb server, bundle and LoadGen, without a farm's queue."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from agents.attempts.on_device import LoadGenRunner
from agents.attempts.phone import PhoneRunner
from agents.attempts.protocol import AttemptRunner
from agents.inference.content import Content, cache_folder
from agents.remotes.remote import Remote
from controller.contracts.base import Scalar
from controller.contracts.catalog import load_catalog
from controller.contracts.facts import undeclared
from controller.contracts.policy import Policy, load_policy
from controller.contracts.result import Outcome
from controller.contracts.sweep import Sweep
from controller.contracts.wire import AttemptRef, Job, Progress, WorkerSpec
from controller.scheduling.expansion import cells_of
from controller.scheduling.program import program_of
from tests.support.phone_farm import LoopAgent


async def run_cell(
    agent: LoopAgent,
    folder: Path,
    workload: str,
    stack: str = "litert",
    scenario: str = "single_stream",
    *,
    knobs: dict[str, Scalar] | None = None,
    policy: Policy | None = None,
    content: Content | None = None,
    deadline_s: float = 280,
    on_progress: Callable[[Progress], None] = lambda _: None,
    through: Callable[[Remote], Remote] = lambda remote: remote,
    around: Callable[[AttemptRunner], AttemptRunner] = lambda runner: runner,
) -> tuple[Outcome, list[str]]:
    """Run a cell on the agent's phone; return its outcome and the phases of its progress.

    through: may stand between the run and its phone. around: may wrap the attempt runner.
    """
    device = next(phone.device for phone in agent.phones.present.here.values())
    catalog = load_catalog()
    given = {name: (value,) for name, value in (knobs or {}).items()}
    sweep = Sweep(name="one", workload=workload, stack=stack, scenario=scenario, knobs=given)
    (cell,) = cells_of(sweep, catalog)
    job = Job(
        ref=AttemptRef(run_id="one", attempt=1),
        device_id=device.id,
        workload=workload,
        stack=stack,
        scenario=scenario,
        knobs=cell.knobs,
        program=program_of(cell, catalog),
        deadline_s=deadline_s,
    )
    content = content or Content(folder / "content", cache_folder())
    run = LoadGenRunner(lambda device: through(agent.phones.remote_of(device)), content)
    chosen = policy or load_policy(str(cell.knobs["policy"]))
    runner = around(PhoneRunner(run, agent.phones, policy_of=lambda _: chosen))
    folder.mkdir(parents=True, exist_ok=True)
    phases: list[str] = []
    spec = WorkerSpec(job=job, device=device, artefact_dir=str(folder))

    def take(progress: Progress) -> None:
        phases.append(progress.phase)
        on_progress(progress)

    outcome = await runner.run(spec, take)
    assert undeclared(outcome.environment, catalog.own_facts) == []
    return outcome, phases
