"""Checks of `benchfarm phone doctor`: can the phone start the bundles of its architecture?"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from agents.inference.bundle.recipe import recipe_names
from agents.inference.content import Content, Runtime, cache_folder
from agents.inference.requirements import summary, untold
from agents.inference.requirements_probe import Look, look
from agents.remotes.remote import Remote, RemoteFault
from controller.contracts.checks import Check, Health


async def bundle_checks(remote: Remote, place: str, architecture: str | None) -> list[Check]:
    """Return whether a phone can start each bundle that was built for its architecture here."""
    known = [name for name in recipe_names() if name.partition("-")[2] == architecture]
    if not known:
        return []  # another check reports that there is no runtime for it
    with tempfile.TemporaryDirectory() as folder:
        built = await Content(Path(folder), cache_folder()).runtimes_built(str(architecture))
        found = [check for one in built for check in await _looked_at(remote, place, one)]
    if built:
        return found
    seen = f"not tried: this host has built none for {architecture} yet"
    remedy = f"Run `benchfarm bundle build {known[0]}`."
    return [Check(what="bundle", health=Health.UNKNOWN, seen=seen, remedy=remedy)]


async def _looked_at(remote: Remote, place: str, runtime: Runtime) -> list[Check]:
    what = f"bundle {runtime.name}"
    try:
        seen = await look(remote, runtime, place)
    except RemoteFault as fault:
        remedy = "Correct that, then examine the phone again."
        return [Check(what=what, health=Health.MEND, seen=fault.message, remedy=remedy)]
    return [*checks_of(what, seen)]


def checks_of(what: str, seen: Look) -> Iterator[Check]:
    """Yield a check for each requirement that is not met or not reported, then a summary."""
    for one in seen.unmet:
        yield Check(what=what, health=Health.MEND, seen=one.seen, remedy=one.remedy)
    if seen.unmet:
        return  # nothing more was asked
    for name in untold(seen.told):
        yield Check(what=what, health=Health.UNKNOWN, seen=f"the phone does not report its {name}")
    yield Check(what=what, health=Health.WELL, seen=summary(seen.told))
