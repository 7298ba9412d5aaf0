"""A program of a user's for tests: the one of docs/adding.md, as its user adds and runs it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import yaml

from agents.attempts.command import READING_S, DeviceRunner
from agents.inference.content import Content
from agents.remotes.remote import Remote
from controller.contracts.base import Scalar
from controller.contracts.catalog import load_catalog
from controller.contracts.command import Command
from controller.contracts.result import Failure, Result
from controller.contracts.sweep import Sweep
from controller.contracts.wire import CommandProgram, WorkerSpec
from controller.scheduling.expansion import cells_of
from controller.scheduling.program import program_of
from models.mobile import catalogue
from models.mobile.store import Store
from tests.support import builders
from tests.support.waiting import PATIENCE_S

DOCS = Path(__file__).parents[2] / "docs"
RECORDED = Path(__file__).parents[1] / "unit" / "programs" / "command_output"
NO_KNOBS: Mapping[str, Scalar] = {}


def described(title: str) -> str:
    """Return the first YAML of a section of docs/adding.md."""
    section = (DOCS / "adding.md").read_text().partition(f"## {title}\n")[2]
    return section.partition("```yaml\n")[2].partition("```")[0]


STACK = described("A program of your own")
SCRIPT = r"""#!/bin/sh
[ "$VENDOR_MODE" = npu ] && { echo "E: NO NPU here"; exit 0; }
echo "args $3 ${4-}"
echo "mode $VENDOR_MODE"
for n in 1 2 3; do echo "took $n.5 ms"; done
cat "$1"
echo "a log" >"$2/log.txt"
echo "a warning" >&2
"""


def add(store: Store, tmp_path: Path, stack: str, **files: str) -> str:
    """Add a stack and its files as a user does; return its name."""
    manifest = tmp_path / "stack.yaml"
    manifest.write_text(stack)
    (added,) = catalogue.add(store, manifest, None)
    name = str(added.stack)
    assert set(added.keys) == {
        f"{name}/files/{file}" for file in yaml.safe_load(stack)["command"]["files"]
    }
    for file, content in files.items():
        path = tmp_path / file
        path.write_text(content)
        catalogue.add(store, path, f"{name}/files/{file}")
    return name


def spec_of(
    tmp_path: Path, stack: str, knobs: Mapping[str, Scalar] = NO_KNOBS, workload: str = "program"
) -> WorkerSpec:
    """Return what an agent is told of a cell of a program."""
    catalog = load_catalog()
    sweep = Sweep.model_validate(
        {"name": "s", "workload": workload, "stack": stack, "scenario": stack, "knobs": dict(knobs)}
    )
    (cell,) = cells_of(sweep, catalog)
    job = builders.job(deadline_s=PATIENCE_S).model_copy(
        update={
            **cell.model_dump(include={"workload", "stack", "scenario", "knobs"}),
            "program": program_of(cell, catalog),
        }
    )
    return WorkerSpec(job=job, device=builders.cpu(), artefact_dir=str(tmp_path / "artefacts"))


def changed(spec: WorkerSpec, **changes: object) -> WorkerSpec:
    """Return a job whose command is another in some keys."""
    assert isinstance(spec.job.program, CommandProgram)
    keys = spec.job.program.command.model_dump(mode="json") | changes
    program = spec.job.program.model_copy(update={"command": Command.model_validate(keys)})
    return spec.model_copy(update={"job": spec.job.model_copy(update={"program": program})})


async def run_on(
    remote: Remote, tmp_path: Path, spec: WorkerSpec, reading_s: float = READING_S
) -> Result | Failure:
    """Run a job on a remote."""
    content = Content(tmp_path / "content", tmp_path / "bundles")
    return await DeviceRunner(lambda _: remote, content, reading_s).run(spec, lambda _: None)
