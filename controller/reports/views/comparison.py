"""The report of a comparison: sweeps, devices or cells against the first of them. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from controller.contracts.catalog import Catalog
from controller.contracts.errors import Incomparable, NotFound
from controller.contracts.imported import ImportedResult
from controller.contracts.records import OutcomeOrigin, StoredFailure, StoredResult
from controller.reports.groups import grouped
from controller.reports.views.common import Made, measured_facts, view_of
from controller.reports.views.model import ReportView
from controller.reports.views.reference import FirstSubject, SubjectKind

_NAMED_BY: Mapping[SubjectKind, str] = {
    SubjectKind.SWEEP: "sweep_id",
    SubjectKind.DEVICE: "device",
    SubjectKind.CELL: "cell_key",
}
"""Kind of subject → the field of an outcome that names its subject."""


def comparison_view(
    subjects: Sequence[str],
    results: Sequence[StoredResult],
    failures: Sequence[StoredFailure],
    catalog: Catalog,
    made: Made,
    imported: Sequence[ImportedResult] = (),
) -> ReportView:
    """Return the view of a comparison; all stored outcomes may be passed.

    imported: published results to stand beside the subjects'.

    Raises NotFound for a subject without outcomes, Incomparable for subjects of two kinds, a
    repeated subject, or a virtual device beside a real one.
    """
    kind = _kind_of(subjects, [*results, *failures])
    field = _NAMED_BY[kind]
    results = [r for r in results if getattr(r, field) in subjects]
    failures = [f for f in failures if getattr(f, field) in subjects]
    _refuse_virtual_beside_real(kind, results)
    named = {o.device: o.device_label for o in (*failures, *results)}
    titles = [named.get(name, name) for name in subjects]
    groups = [
        group
        for subject, title in zip(subjects, titles, strict=True)
        for group in grouped(
            [r for r in results if getattr(r, field) == subject],
            [f for f in failures if getattr(f, field) == subject],
            title,
        )
    ]
    facts = {f"{kind.value} {number}": title for number, title in enumerate(titles, start=1)}
    return view_of(
        title=f"Comparison of {len(subjects)} {kind.value}s",
        description=f"Everything is set against the first: {titles[0]}.",
        facts=facts | measured_facts(results, made),
        groups=groups,
        results=results,
        failures=failures,
        reference=FirstSubject(kind, titles[0]),
        catalog=catalog,
        imported=imported,
    )


def _kind_of(subjects: Sequence[str], outcomes: Sequence[OutcomeOrigin]) -> SubjectKind:
    tried = f"compare {', '.join(subjects)}"
    kinds = {name: _kinds_named(name, outcomes) for name in subjects}
    for name, found in kinds.items():
        if not found:
            raise NotFound(
                f"find {name}",
                "no sweep, device or cell of that name has an outcome",
                "Run `benchfarm results list` to see what is stored.",
            )
    if len(kinds) < len(subjects):
        raise Incomparable(tried, "one is named twice", "Name different ones.")
    shared = set.intersection(*kinds.values())
    if not shared:
        said = ", ".join(f"{name} is a {min(found)}" for name, found in kinds.items())
        raise Incomparable(tried, said, "Name sweeps only, devices only, or cells only.")
    return min(shared)


def _kinds_named(name: str, outcomes: Sequence[OutcomeOrigin]) -> set[SubjectKind]:
    return {
        kind
        for kind, field in _NAMED_BY.items()
        if any(getattr(outcome, field) == name for outcome in outcomes)
    }


def _refuse_virtual_beside_real(kind: SubjectKind, results: Sequence[StoredResult]) -> None:
    if kind is SubjectKind.DEVICE and len({result.virtual for result in results}) > 1:
        virtual = sorted({result.device for result in results if result.virtual})
        raise Incomparable(
            "compare devices",
            f"{', '.join(virtual)} is virtual: its numbers say nothing about a real device",
            "Compare real devices with real ones, and virtual ones with virtual ones.",
        )
