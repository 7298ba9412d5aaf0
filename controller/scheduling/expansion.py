"""Expansion of a sweep to cells, independent of the fleet. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from controller.contracts.audit import AUDIT, audit_of
from controller.contracts.base import Scalar, scalar_text
from controller.contracts.catalog import Catalog
from controller.contracts.errors import SweepInvalid
from controller.contracts.manifests import Knob
from controller.contracts.records import scores_only
from controller.contracts.spelling import did_you_mean
from controller.contracts.suite_version import quality_target
from controller.contracts.sweep import Cell, PairedCandidate, PairedComparison, Side, Sweep, choices
from controller.contracts.weights import KNOB, NO_WEIGHTS
from controller.scheduling.hosts import HOSTS, hosts_of
from controller.scheduling.limits import require_within_limits
from controller.scheduling.program import candidate_of, program_of
from controller.scheduling.selector import parse_selector

SAID = 80
"""Characters of a knob's value that an error repeats."""


def cells_of(sweep: Sweep, catalog: Catalog, source: str = "the sweep") -> list[Cell]:
    """Expand a sweep's axes; raises SweepInvalid with the source, the key and the allowed
    values."""
    require_within_limits(sweep, source)
    for key, names, known in (
        ("workload", sweep.workload, catalog.workloads),
        ("stack", sweep.stack, catalog.stacks),
        ("scenario", sweep.scenario, catalog.scenarios),
    ):
        for name in names:
            _require_manifest(name, known, catalog, source, key)
    for recipe, given in sweep.recipes.items():
        if "stack" in given:
            key = f"recipes.{recipe}.stack"
            _require_manifest(str(given["stack"]), catalog.stacks, catalog, source, key, "stack")
    _check_shape(sweep, source)
    for selector in sweep.devices:
        parse_selector(selector)
    if sweep.paired is None:
        cells = _single_cells(sweep, catalog, source)
    else:
        cells = _paired_cells(sweep, sweep.paired, catalog, source)
    _check_scenarios(cells, catalog, source)
    for cell in cells:
        candidate_of(cell, catalog, source)
        for side in cell.sides():
            _check_accuracy(side, catalog, source)
            _check_only_under(side, catalog, source)
            _check_hosts(side, sweep, source)
        _check_profile(cell, catalog, source)
        _check_quality(cell, catalog, source)
        _check_pair(cell, source)
    _check_baseline(sweep, cells, catalog, source)
    return list({cell.key: cell for cell in cells}.values())


def _single_cells(sweep: Sweep, catalog: Catalog, source: str) -> list[Cell]:
    several = len(sweep.workload) > 1
    return [
        Cell(
            workload=workload,
            stack=stack,
            scenario=scenario,
            knobs=_complete(given, catalog, (workload, stack, scenario), source, several),
            selector=selector,
            profiled=sweep.profile,
        )
        for workload, stack, scenario, given in choices(sweep)
        for selector in sweep.devices
    ]


def _paired_cells(
    sweep: Sweep, paired: PairedComparison, catalog: Catalog, source: str
) -> list[Cell]:
    """Return a cell for each side B at each point of the axes."""

    def cells_of_side(key: str, side: Side) -> list[Cell]:
        _check_side(side, sweep, catalog, source, key)
        knobs = {**sweep.knobs, **{name: (value,) for name, value in side.knobs.items()}}
        alone = sweep.model_copy(update={"stack": (side.stack,), "knobs": knobs})
        return _single_cells(alone, catalog, source)

    stopping = paired.model_dump(include={"width", "time_limit_s"})
    return [
        a.model_copy(update={"versus": PairedCandidate(stack=b.stack, knobs=b.knobs, **stopping)})
        for side in paired.b
        for a, b in zip(
            cells_of_side("paired.a", paired.a), cells_of_side("paired.b", side), strict=True
        )
    ]


def _check_shape(sweep: Sweep, source: str) -> None:
    own = sweep.recipes and all("stack" in recipe for recipe in sweep.recipes.values())
    if not (sweep.stack or own or sweep.paired):
        remedy = "Add key stack, name a stack in every recipe, or add key paired."
        raise SweepInvalid(f"read {source}", "key stack: it is missing", remedy)
    if sweep.paired:
        _check_paired(sweep, sweep.paired, source)
    for recipe, given in sweep.recipes.items():
        if both := sorted(set(given) & set(sweep.knobs)):
            raise SweepInvalid(
                f"read {source}",
                f"key recipes.{recipe}: it sets {both[0]}, which knobs sets too",
                "Set it in one of the two.",
            )


def _check_profile(cell: Cell, catalog: Catalog, source: str) -> None:
    program = program_of(cell, catalog, source)
    if cell.profiled and not program.type == cell.scenario == "training":
        raise SweepInvalid(
            f"read {source}",
            f"key profile: workload {cell.workload} does not train under scenario {cell.scenario}",
            "Profile a workload that trains, under scenario training.",
        )
    if cell.profiled and "ranks" in cell.knobs and cell.knobs["ranks"] != 1:
        raise SweepInvalid(
            f"read {source}",
            f"key profile: a profile is of one process, not of ranks={cell.knobs['ranks']}",
            "Set the knob ranks to 1.",
        )


def _check_quality(cell: Cell, catalog: Catalog, source: str) -> None:
    if not cell.knobs.get("quality_target"):
        return
    if quality_target(catalog.workloads[cell.workload], cell.knobs) is None:
        raise SweepInvalid(
            f"read {source}",
            f"key knobs.quality_target: workload {cell.workload} has no quality target to override",
            "Remove the key.",
        )


def _check_pair(cell: Cell, source: str) -> None:
    """Raise SweepInvalid for a paired comparison of what has no speed."""
    sides = [side.knobs for side in cell.sides()] if cell.versus else []
    seen = ""
    if any(audit_of(knobs) for knobs in sides):
        seen = f"key knobs.{AUDIT}: a paired comparison is no audit"
    elif any(map(scores_only, sides)):
        seen = "key knobs.mode: accuracy measures no speed to compare"
    if seen:
        raise SweepInvalid(f"read {source}", seen, "Remove the key, or paired.")


def _check_only_under(cell: Cell, catalog: Catalog, source: str) -> None:
    """Raise SweepInvalid for a knob that is set where its scenario does not use it."""
    for name, knob in catalog.knobs_of(cell.workload, cell.stack, cell.scenario).items():
        value = cell.knobs.get(name, knob.default)
        if knob.only_under not in (None, cell.scenario) and value != knob.default:
            raise SweepInvalid(
                f"read {source}",
                f"key knobs.{name}: {scalar_text(value)} has no meaning under scenario "
                f"{cell.scenario}",
                f"Set it under scenario {knob.only_under} only.",
            )


def _check_hosts(cell: Cell, sweep: Sweep, source: str) -> None:
    """Raise SweepInvalid for ranks that can't be spread over several hosts."""
    hosts = hosts_of(cell.knobs)
    if hosts == 1:
        return
    ranks = int(cell.knobs["ranks"])
    why, remedy = "", ""
    if ranks % hosts:
        why = f"ranks={ranks} can't be spread evenly over {hosts} hosts"
        remedy = "Make the knob ranks a multiple of hosts."
    elif sweep.paired:
        why, remedy = "a paired comparison is of one host", "Remove the key, or paired."
    elif sweep.run_on != "any":
        why = "the hosts of a run are chosen together, not device by device"
        remedy = "Remove run_on, and choose the hosts with devices."
    if why:
        raise SweepInvalid(f"read {source}", f"key knobs.{HOSTS}: {why}", remedy)


def _check_accuracy(cell: Cell, catalog: Catalog, source: str) -> None:
    """Raise SweepInvalid for an accuracy asked of a model that is random, or whose samples are."""
    if program_of(cell, catalog, source).type != "training":
        return
    asked = {"mode": scores_only(cell.knobs)}
    asked["quality_target"] = bool(cell.knobs.get("quality_target"))
    random = cell.knobs.get(KNOB) in (None, NO_WEIGHTS)
    truths = catalog.workloads[cell.workload].truths
    if not random and truths and truths.are_known(cell.knobs):
        return
    lacks = "random weights" if random else "made-up samples"
    if keys := [name for name, is_so in asked.items() if is_so]:
        raise SweepInvalid(
            f"read {source}",
            f"key knobs.{keys[0]}: workload {cell.workload} has {lacks} on stack "
            f"{cell.stack}, so its accuracy means nothing",
            "Remove the key: only speed is measured.",
        )


def _check_paired(sweep: Sweep, paired: PairedComparison, source: str) -> None:
    for key in ("stack", "recipes", "baseline", "profile"):
        if getattr(sweep, key):
            raise SweepInvalid(
                f"read {source}",
                f"key {key}: it is not allowed beside paired",
                "Set it in paired.a and paired.b.",
            )
    if sweep.deadline_s <= paired.time_limit_s:
        raise SweepInvalid(
            f"read {source}",
            f"key deadline_s: {sweep.deadline_s:g} s is not longer than paired.time_limit_s, "
            f"{paired.time_limit_s:g} s",
            "Make it longer: it ends an attempt that hangs.",
        )


def _check_side(side: Side, sweep: Sweep, catalog: Catalog, source: str, key: str) -> None:
    if side.stack not in catalog.stacks:
        catalog.require_read(side.stack)
        raise SweepInvalid(
            f"read {source}",
            f"key {key}: there is no stack {side.stack!r}",
            f"Known: {', '.join(sorted(catalog.stacks))}.",
        )
    if both := sorted(side.knobs.keys() & sweep.knobs.keys()):
        raise SweepInvalid(
            f"read {source}",
            f"key {key}: it sets {both[0]}, which knobs sets too",
            "Set it in one of the two.",
        )


def _require_manifest(
    name: str,
    known: Iterable[str],
    catalog: Catalog,
    source: str,
    key: str,
    noun: str | None = None,
) -> None:
    """Raise SweepInvalid for a manifest that the catalogue lacks, or that is left out of it."""
    if name not in known:
        catalog.require_read(name)
    _require(name, known, source, key, noun)


def _require(
    name: str, known: Iterable[str], source: str, key: str, noun: str | None = None
) -> None:
    if name in (names := sorted(known)):
        return
    raise SweepInvalid(
        f"read {source}",
        f"key {key}: there is no {noun or key.split('.')[0].rstrip('s')} {name!r}",
        f"{did_you_mean(name, names)}Known: {', '.join(names) or 'none'}.",
    )


def _complete(
    given: Mapping[str, Scalar],
    catalog: Catalog,
    of: tuple[str, str, str],
    source: str,
    several: bool,
) -> dict[str, Scalar]:
    """Return a value of each knob, but for those that leave out their default.

    of: workload, stack and scenario; several: whether the sweep has other workloads, too.
    """
    knobs, own = catalog.knobs_of(*of), catalog.workloads[of[0]].knobs
    for name, value in given.items():
        _require(name, knobs, source, "knobs")
        if remedy := knobs[name].objection(value):
            whose = f" for workload {of[0]}" if several and name in own else ""
            seen = f"key knobs.{name}: {value!r:.{SAID}} is not allowed{whose}"
            raise SweepInvalid(f"read {source}", seen, remedy)
    return {
        name: _exact(given.get(name, knob.default), knob)
        for name, knob in sorted(knobs.items())
        if not (knob.omit_default and given.get(name, knob.default) == knob.default)
    }


def _exact(value: Scalar, knob: Knob) -> Scalar:
    """Return 1 as 1.0 if the knob is a float, so that both are one cell."""
    return float(value) if knob.type == "float" else value


def _check_scenarios(cells: Iterable[Cell], catalog: Catalog, source: str) -> None:
    for cell in cells:
        allowed = catalog.workloads[cell.workload].scenarios
        if cell.scenario not in allowed:
            raise SweepInvalid(
                f"read {source}",
                f"key scenario: workload {cell.workload} does not run under {cell.scenario!r}",
                f"Give one of: {', '.join(allowed)}.",
            )
        instead = catalog.scenarios[cell.scenario].instead_of_pairing
        if cell.versus and instead:
            seen = f"key paired: scenario {cell.scenario} does not compare two sides"
            raise SweepInvalid(f"read {source}", seen, instead)


def _check_baseline(sweep: Sweep, found: Sequence[Cell], catalog: Catalog, source: str) -> None:
    if not sweep.baseline:
        return
    cells = [_with_omitted(cell, catalog) for cell in found]
    fields = {"workload", "stack", "scenario", "device"}
    for name, value in sweep.baseline.items():
        _require(name, fields.union(*(cell.knobs for cell in cells)), source, "baseline")
        values = {axis_value(cell, name) for cell in cells} - {None}
        if name != "device" and value not in values:
            raise SweepInvalid(
                f"read {source}",
                f"key baseline.{name}: no cell has {name} = {value}",
                f"Give one of: {', '.join(sorted(map(str, values)))}.",
            )
    wanted = {name: value for name, value in sweep.baseline.items() if name != "device"}
    marks = ({name: axis_value(cell, name) for name in wanted} for cell in cells)
    nearest = max(marks, key=lambda has: sum(has[name] == wanted[name] for name in wanted))
    if nearest != wanted:
        raise SweepInvalid(
            f"read {source}",
            f"key baseline: no cell has {_listed(wanted)}",
            f"Give what one cell has, such as {_listed(nearest)}.",
        )


def _with_omitted(cell: Cell, catalog: Catalog) -> Cell:
    knobs = catalog.with_omitted(cell.workload, cell.stack, cell.scenario, cell.knobs)
    return cell.model_copy(update={"knobs": knobs})


def _listed(values: Mapping[str, Scalar | None]) -> str:
    return " and ".join(f"{name} = {value}" for name, value in values.items())


def axis_value(cell: Cell, name: str) -> Scalar | None:
    """Return a cell's value on an axis: workload, stack, scenario or a knob."""
    fields = {"workload": cell.workload, "stack": cell.stack, "scenario": cell.scenario}
    return fields.get(name, cell.knobs.get(name))
