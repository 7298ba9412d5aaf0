"""`python -m tests.support.scripted_agent FOLDER`: a real agent whose runs are over at once.

It registers over Ray with some made-up devices and measures nothing: for tests of the controller
that need many runs. Its devices are virtual, and say so.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
from collections.abc import Callable
from pathlib import Path

import ray

from agents.agent import AgentParts, HostAgent
from agents.ray_link import RayLink
from controller.contracts.device import Agent, Device, DeviceKind
from controller.contracts.ray_names import NAMESPACE
from controller.contracts.result import Measurement, Outcome, Result, Validity
from controller.contracts.units import Unit
from controller.contracts.version import installed_version
from controller.contracts.wire import Progress, WorkerSpec

DEVICES = 4
RUN_S = 0.1
LABEL = "scripted"


class Scripted:
    """An AttemptRunner that says what it was told to measure, after a while."""

    async def run(self, spec: WorkerSpec, on_progress: Callable[[Progress], None]) -> Outcome:
        """See AttemptRunner.run."""
        on_progress(Progress(phase="training", done=0, total=1))
        await asyncio.sleep(RUN_S)
        return Result(
            validity=Validity.VALID,
            metrics={"step_time": Measurement.of_samples((RUN_S,), Unit.SECONDS)},
            environment={"hostname": LABEL},
        )

    async def clean(self) -> int:
        """See AttemptRunner.clean."""
        return 0


def devices() -> list[Device]:
    """Return servers that nobody has, so marked."""
    return [
        Device(
            id=f"scripted-{n}",
            kind=DeviceKind.CPU_HOST,
            virtual=True,
            labels={LABEL: "yes"},
            host_cores=frozenset({1000 + n}),
        )
        for n in range(DEVICES)
    ]


async def serve(folder: Path) -> None:
    """Be an agent until killed."""
    identity = Agent(
        id="scripted",
        incarnation=secrets.token_hex(8),
        version=installed_version(),
        host=os.uname().nodename,
    )
    transports = {DeviceKind.CPU_HOST: Scripted()}
    await HostAgent(AgentParts(identity, devices(), RayLink(), transports, folder)).serve()


if __name__ == "__main__":
    ray.init(
        address=os.environ["RAY_ADDRESS"],
        namespace=NAMESPACE,
        log_to_driver=False,
        logging_level="ERROR",
    )
    asyncio.run(serve(Path(sys.argv[1])))
