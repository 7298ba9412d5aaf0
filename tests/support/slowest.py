"""The modules of tests that take longest, the longest first.

pytest-xdist gives modules out in their order: what takes minutes has to begin first, or all else is
done and one process goes on alone. From the durations that the parts of the tests print; a module
that is not here comes behind all these, in the order of its folder.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

TESTS: Final = Path(__file__).parents[1]
SLOWEST: Final = (
    # Minutes. A process is given the next module with the last two tests of its own: that those of
    # one or two tests have none of minutes behind them, others come first.
    "integration/test_ipex.py",
    "integration/test_ladder.py",
    "integration/test_fleet.py",
    "integration/test_ray_launcher.py",
    "integration/test_mobile_suite.py",
    "integration/test_main_job.py",
    "integration/test_training_workloads.py",
    "integration/test_supervision.py",
    "integration/test_phones.py",
    "integration/test_fleet_faults.py",
    "integration/test_clock_steps.py",
    "integration/test_phone_life.py",
    "unit/kernels/test_sanitizers.py",
    "integration/test_bundle.py",
    "contract/test_phones.py",
    "integration/test_recovery.py",
    "unit/store/test_random_damage.py",
    "integration/test_head_loss.py",
    "integration/test_profile.py",
    "integration/test_phone_faults.py",
    "integration/test_fleet_phones.py",
    "unit/api/test_any_query.py",
    "integration/test_mobile_policies.py",
    # a minute
    "unit/test_adding.py",
    "integration/test_dashboards_sweep.py",
    "integration/test_page_browser.py",
    "security/test_shared_machine.py",
    "integration/test_audits.py",
    "security/test_current_folder.py",
    "integration/test_out_of_memory.py",
    "integration/test_controller_killed.py",
    "integration/test_prometheus.py",
    "integration/test_compare.py",
    "integration/test_unlike_work.py",
    "unit/cli/test_doctor.py",
    "integration/test_references.py",
    "integration/test_suite_session.py",
    "contract/test_virtual_phone_fuzz.py",
    "unit/profiles/test_log_replays.py",
    "unit/runtime/test_farm_faults.py",
    "unit/profiles/test_layers.py",
    "integration/test_mobile_refusals.py",
    "unit/profiles/test_both_replays.py",
    "unit/ranks/test_ranks.py",
    "integration/test_report_browser.py",
    "integration/test_images_on_a_phone.py",
)


def rank_of(module: Path) -> int:
    """Return a module's place among the slowest; all others have the last."""
    return _RANKS.get(module, len(SLOWEST))


_RANKS: Final = {TESTS / name: rank for rank, name in enumerate(SLOWEST)}
