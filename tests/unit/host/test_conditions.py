"""The conditions of a host are those of the cores that are measured."""

from __future__ import annotations

from pathlib import Path

from agents.host.conditions import environment_of, read_conditions
from tests.support.fake_sysfs import write_files

CPU = "devices/system/cpu/cpu{}/cpufreq/{}"


def test_governor_and_frequency_are_those_of_the_cores(tmp_path: Path) -> None:
    governors = {0: "powersave", 2: "schedutil", 3: "performance", 4: "performance", 5: ""}
    for core, (cpu, governor) in enumerate(governors.items()):
        write_files(tmp_path, {CPU.format(cpu, "scaling_governor"): f"{governor}\n"})
        write_files(tmp_path, {CPU.format(cpu, "scaling_cur_freq"): f"{5 - core}00000\n"})
    of_two = read_conditions({3, 4}, tmp_path)
    assert (of_two.governor, of_two.frequency_khz) == ("performance", 300_000)
    of_more = read_conditions({5, 4, 3, 2, 1}, tmp_path)
    assert (of_more.governor, of_more.frequency_khz) == ("performance schedutil", 400_000)
    facts = environment_of(of_two, of_more)
    assert facts["governor"] == "performance schedutil"
    assert (facts["frequency_khz_before"], facts["frequency_khz_after"]) == (300_000, 400_000)


def test_a_host_without_frequencies(tmp_path: Path) -> None:
    write_files(tmp_path, {CPU.format(1, "scaling_cur_freq"): "<unknown>\n"})
    found = read_conditions({0, 1}, tmp_path)
    assert (found.governor, found.frequency_khz) == (None, None)
