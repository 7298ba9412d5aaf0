"""Primitives are matched to the module that ran them: as when modules run one by one."""

from __future__ import annotations

from pathlib import Path

from controller.profiles.capturing import profile_of
from controller.profiles.files import read, write
from controller.profiles.model import Profile
from tests.support.recorded_profiles import captured, matched_bodies, true_bodies


def test_every_primitive_is_matched_to_an_op_and_a_module(profile: Profile) -> None:
    assert profile.summary.matched == 1.0
    assert profile.summary.steps == 2
    phases = {row.place.phase for row in profile.primitives}
    assert phases == {"forward", "backward"}
    assert profile.summary.explained
    assert 0.3 < profile.summary.explained < 1


def test_it_is_the_module_that_runs_them_when_it_runs_alone(
    profiled: Path, profile: Profile
) -> None:
    expected = true_bodies(profiled)
    # One head for three levels of sizes.
    assert sum(expected["forward head.0"].values()) >= 3
    assert matched_bodies(profile) == expected


def test_a_profile_is_read_back_as_it_was_written(tmp_path: Path, profile: Profile) -> None:
    write(profile, tmp_path / "kept")
    assert read(tmp_path / "kept") == profile


def test_a_machine_that_was_not_quiet_is_told(profiled: Path, profile: Profile) -> None:
    assert profile.summary.notes == ()
    (note,) = profile_of(captured(profiled, verbose_step_s=0.8)).summary.notes
    assert note.startswith("the machine was not quiet: a watched step took 0.8 s, a timed one 1 s")
