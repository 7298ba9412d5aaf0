"""What is said of DISTURBED results, and of measuring them again. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from controller.contracts.policy import HostLimits
from controller.contracts.records import StoredResult
from controller.contracts.result import Validity


def rerun_line(results: Sequence[StoredResult], lab: HostLimits) -> str:
    """Return what a re-run under policy `lab` would give; empty if no result is DISTURBED.

    lab: the limits of that policy.
    """
    count = sum(r.counted and r.validity is Validity.DISTURBED for r in results)
    if not count:
        return ""
    one = count == 1
    said = "1 result is" if one else f"{count} results are"
    used = "it has no rank and is no baseline" if one else "they have no rank and are no baseline"
    return (
        f"{said} DISTURBED: the machine was not quiet, so {used}. A re-run with policy=lab is "
        f"VALID within the limits of lab (others keep at most {lab.most_other_cores:g} cores busy, "
        f"the hypervisor takes at most {lab.most_steal_share:.0%} of the time, and those of "
        "docs/run-rules.md); as disturbed as now, it would be INVALID."
    )
