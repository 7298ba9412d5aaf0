"""`python -m agents.host_facts`: a helper of `benchfarm doctor`; serves a HostRequest."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

from agents.host.compiler import MISSING, compiler
from agents.host.cores import PLACES, is_safe, lock_folder
from agents.host.cpu import read_instruction_sets
from agents.remotes.adb.server import find_adb
from agents.stacks.environments import stacks_folder
from agents.stacks.status import details_of, status_of
from agents.virtual_phone.namespaces import choose
from controller.contracts.catalog import Catalog, load_catalog
from controller.contracts.doctor import AgentsFacts, HostRequest, LockFolder, Program
from controller.contracts.error_payload import ErrorPayload
from controller.contracts.errors import AdbMissing, HomeUnusable, UserError
from controller.contracts.manifests import StackManifest
from controller.contracts.plugins import LeftOut
from controller.platform.helper_main import Replies, serve
from controller.platform.trial import fault_of

SMALLEST = "#include <vector>\nint main() { return int(std::vector<int>().size()); }\n"
"""Needs the compiler's own headers, which are separate packages."""


def handle(request: HostRequest, replies: Replies) -> None:
    """Answer with AgentsFacts."""
    replies.answer(agents_facts(request.home))


def agents_facts(home: Path) -> AgentsFacts:
    """Return this host's facts; starts adb, the compiler and each installed stack once."""
    isa, stacks = read_instruction_sets(), stacks_folder(home)
    catalog, left_out = _catalog()
    manifests = catalog.stacks
    statuses = tuple(status_of(stack, stacks) for stack in manifests.values())
    ready = (manifests[s.name] for s in statuses if s.ready and manifests[s.name].backend)
    return AgentsFacts(
        adb=_adb(),
        compiler=_compiler(),
        stacks=statuses,
        stack_faults=dict(_stack_faults(ready, stacks)),
        isa_unusable=isa.unusable,
        has_amx="amx_tile" in isa.usable,
        locks=_locks(),
        namespaces_fault=_fault(choose),
        left_out=left_out,
    )


def _catalog() -> tuple[Catalog, tuple[LeftOut, ...]]:
    """Return the catalogue and what is left out of it: all of the user's, if it can't be read."""
    try:
        catalog = load_catalog()
    except HomeUnusable as error:
        whole = LeftOut(
            noun="manifests",
            name="all",
            what="all that the user has added",
            seen=f"cannot {error.tried}: {error.seen}",
            remedy=error.remedy,
        )
        return load_catalog(added=False), (whole,)
    return catalog, catalog.left_out


def _adb() -> Program:
    try:
        path = find_adb()
    except AdbMissing as error:
        return Program(remedy=error.remedy)
    return Program(path=path, fault=fault_of((path, "version")))


def _compiler() -> Program:
    path = compiler()
    if path is None:
        return Program(remedy=MISSING.partition("; ")[2])
    command = (path, "-x", "c++", "-fsyntax-only", "-")
    return Program(path=path, fault=fault_of(command, stdin=SMALLEST))


def _stack_faults(
    ready: Iterable[StackManifest], stacks: Path
) -> Iterator[tuple[str, ErrorPayload]]:
    """Yield the stacks that don't start; stacks with the same environment are started once."""
    faults: dict[str | None, ErrorPayload | None] = {}
    for stack in ready:
        where = stack.name if stack.environment else None
        if where not in faults:
            faults[where] = _fault(partial(details_of, stack, stacks))
        if fault := faults[where]:
            yield stack.name, fault


def _fault(look: Callable[[], object]) -> ErrorPayload | None:
    try:
        look()
    except UserError as error:
        return ErrorPayload.of(error)
    return None


def _locks() -> LockFolder:
    folder = lock_folder()
    return LockFolder(
        path=str(folder),
        usual=folder == PLACES[0],
        safe=is_safe(folder),
        writable=os.access(folder, os.W_OK | os.X_OK),
    )


if __name__ == "__main__":
    sys.exit(serve(HostRequest, handle))
