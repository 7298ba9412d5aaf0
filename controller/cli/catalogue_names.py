"""Values that the catalogue knows, for completion.

Each function is given the parameters so far, and the beginning of the value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from controller.cli.signatures import Given
from controller.contracts.catalog import Catalog, load_catalog
from controller.contracts.manifests import Knob
from controller.contracts.suite_rules import load_suites
from controller.contracts.weights import weights_key


def workloads(_: Given, __: str) -> list[str]:
    """Return all workloads."""
    return sorted(load_catalog().workloads)


def training_workloads(_: Given, __: str) -> list[str]:
    """Return the workloads that train."""
    found = load_catalog().workloads.values()
    return sorted(workload.name for workload in found if workload.builder)


def device_workloads(_: Given, __: str) -> list[str]:
    """Return the workloads for devices, which are tasks."""
    found = load_catalog().workloads.values()
    return sorted(workload.name for workload in found if workload.on_device)


def workloads_with_files(_: Given, __: str) -> list[str]:
    """Return the workloads whose models, weights or data sets can be fetched."""
    found = load_catalog().workloads.values()
    return sorted(each.name for each in found if each.on_device or each.weights)


def weights(_: Given, __: str) -> list[str]:
    """Return the names of published weights."""
    found = load_catalog().workloads.values()
    return sorted({name for each in found for name in each.weights or {}})


def model_keys(_: Given, __: str) -> list[str]:
    """Return the keys of the files of tasks and programs, as `models list` shows them."""
    catalog = load_catalog()
    programs = {n: stack.command for n, stack in catalog.stacks.items() if stack.command}
    tasks = {n: workload.on_device for n, workload in catalog.workloads.items()}
    return sorted(
        [
            *(f"{n}/files/{file}" for n, command in programs.items() for file in command.files),
            *(f"{n}/models/{form}" for n, task in tasks.items() if task for form in task.models),
            *(
                weights_key(n, name)
                for n, workload in catalog.workloads.items()
                for name in workload.weights or {}
            ),
            *(
                f"{n}/{size}/{part}"
                for n, task in tasks.items()
                if task
                for size, dataset in task.datasets.items()
                for part in dataset.parts
            ),
        ]
    )


def stacks(_: Given, __: str) -> list[str]:
    """Return all stacks, the user's programs among them."""
    return sorted(load_catalog().stacks)


def scenarios(given: Given, _: str) -> list[str]:
    """Return the scenarios of the workload, or all."""
    catalog = load_catalog()
    workload = catalog.workloads.get(given.get("workload") or "")
    return sorted({*workload.scenarios} if workload else catalog.scenarios)


def numerics(given: Given, _: str) -> list[str]:
    """Return the number formats of the workload, or of all."""
    return sorted(_choices(load_catalog(), given.get("workload"), "numerics"))


def dataset_sizes(_: Given, __: str) -> list[str]:
    """Return the sizes of data sets."""
    return sorted(_choices(load_catalog(), None, "dataset"))


def suites(_: Given, __: str) -> list[str]:
    """Return the versions of the suite whose rules are known."""
    return [rules.version for rules in load_suites()]


def ops(_: Given, __: str) -> list[str]:
    """Return the custom operators."""
    return sorted(_choices(load_catalog(), "kernels", "op"))


def dtypes(_: Given, __: str) -> list[str]:
    """Return the data types of the custom operators."""
    return sorted(_choices(load_catalog(), "kernels", "dtype"))


def variants(_: Given, __: str) -> list[str]:
    """Return the variants of the custom operators."""
    return sorted(_choices(load_catalog(), "kernels", "variant"))


def suite_versions(_: Given, __: str) -> list[str]:
    """Return the versions of the mobile suite, newest first."""
    return [rules.version for rules in reversed(load_suites())]


def suite_tasks(given: Given, _: str) -> list[str]:
    """Return the tasks of the version, or of all."""
    version = given.get("version")
    found = [rules for rules in load_suites() if rules.version == version] or load_suites()
    return sorted({task for rules in found for task in rules.tasks})


def virtual_phones(_: Given, __: str) -> list[str]:
    """Return the built-in profiles of virtual phones, found on disk and not imported."""
    spec = find_spec("agents")
    folders = spec.submodule_search_locations or () if spec else ()
    found = (Path(folder) / "virtual_phone" / "profiles" for folder in folders)
    return sorted(path.stem for folder in found for path in folder.glob("*.yaml"))


def knobs(given: Given, incomplete: str) -> list[str]:
    """Return NAME= of the knobs that fit what is given, or NAME=VALUE of the one being typed."""
    found = _knobs(load_catalog(), given)
    name, equals, _ = incomplete.partition("=")
    if not equals:
        return sorted(f"{known}=" for known in found)
    return [f"{name}={value}" for value in _values(found[name])] if name in found else []


def sides(given: Given, incomplete: str) -> list[str]:
    """Return stacks, or STACK:KNOB=VALUE,… with the last knob completed."""
    stack, colon, rest = incomplete.partition(":")
    if not colon:
        return stacks(given, incomplete)
    before, comma, last = rest.rpartition(",")
    taken = {word.partition("=")[0] for word in before.split(",")}
    catalog = load_catalog()
    if stack not in catalog.stacks:
        return []
    found = knobs({**given, "a": stack, "b": None, "knob": [*taken]}, last)
    return [f"{stack}:{before}{comma}{value}" for value in found]


def _choices(catalog: Catalog, workload: str | None, knob: str) -> set[str]:
    chosen = catalog.workloads.get(workload or "")
    among = [chosen] if chosen else catalog.workloads.values()
    found = (one.knobs[knob].choices or () for one in among if knob in one.knobs)
    return {str(value) for values in found for value in values}


def _knobs(catalog: Catalog, given: Given) -> dict[str, Knob]:
    """Return the knobs of what is given: stacks, workload and scenario; of all that is not."""
    sides = (given.get("stack"), given.get("a"), given.get("b"))
    named = {side.partition(":")[0] for side in sides if side}
    of_stacks = named & {*catalog.stacks} or {*catalog.stacks}
    taken = {text.partition("=")[0] for text in given.get("knob") or ()}
    workload, scenario = given.get("workload"), given.get("scenario")
    known = catalog.workloads.get(workload or "")
    driven = known.scenarios if known else ()
    of_scenarios = {n: s for n, s in catalog.scenarios.items() if n in driven or not driven}
    every = {
        **{n: k for stack in of_stacks for n, k in catalog.launch_knobs(stack).items()},
        **{n: k for stack in of_stacks for n, k in catalog.stacks[stack].knobs.items()},
        **_of_one(catalog.workloads, workload),
        **_of_one(of_scenarios, scenario),
    }
    return {name: knob for name, knob in every.items() if name not in taken}


def _of_one(manifests: Mapping[str, Any], name: str | None) -> dict[str, Knob]:
    chosen = manifests.get(name or "")
    among = [chosen] if chosen else manifests.values()
    return {n: knob for manifest in among for n, knob in manifest.knobs.items()}


def _values(knob: Knob) -> Iterator[str]:
    """Yield what a knob may be: its choices, or else its default."""
    if knob.type == "bool":
        yield from ("true", "false")
    else:
        yield from map(str, knob.choices or (knob.default,))
