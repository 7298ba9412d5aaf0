from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest

from agents.energy.rapl import EnergyMeter, readable_domains
from agents.energy.trace import EnergyUnknownError

RANGE = 10_000_000_000
FLEET = Path(__file__).parents[3] / "docs/fleet.md"


class Counters:
    """A powercap folder whose counters are set by hand."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.first: dict[str, int] = {}

    def add(self, domain: str, name: str, microjoules: int = 0) -> None:
        (self.folder / domain).mkdir()
        self.fill(domain, name, microjoules)

    def fill(self, domain: str, name: str, microjoules: int = 0) -> None:
        path = self.folder / domain
        (path / "name").write_text(f"{name}\n")
        (path / "max_energy_range_uj").write_text(f"{RANGE}\n")
        self.first[domain] = microjoules
        self.set(domain, microjoules)

    def set(self, domain: str, microjoules: int) -> None:
        (self.folder / domain / "energy_uj").write_text(f"{microjoules}\n")


@pytest.fixture
def counters(tmp_path: Path) -> Counters:
    made = Counters(tmp_path)
    # As on a server of two sockets; core, uncore and psys overlap with what is counted.
    made.add("intel-rapl:0", "package-0", 100)
    made.add("intel-rapl:0:0", "core")
    made.add("intel-rapl:0:1", "dram", 300)
    made.add("intel-rapl:1", "package-1", RANGE - 10)
    made.add("intel-rapl:2", "psys")
    return made


def test_packages_and_dram_add_up(counters: Counters) -> None:
    meter = metering(counters)
    with meter.running():
        counters.set("intel-rapl:0", 600)
        counters.set("intel-rapl:0:1", 400)
        counters.set("intel-rapl:0:0", 999)
        counters.set("intel-rapl:2", 999)
        counters.set("intel-rapl:1", 29)  # it went past its range: 10, then from 0 to 29
    assert meter.used.source == "rapl: package-0 dram package-1"
    assert meter.used.joules.value == pytest.approx((500 + 100 + 40) / 1e6)
    counters.set("intel-rapl:0", 900)  # not while it ran
    with meter.running():
        counters.set("intel-rapl:0", 1000)
    assert meter.used.joules.value == pytest.approx((500 + 100 + 40 + 100) / 1e6)


def test_counters_may_go_round_more_than_once_if_looked_at_in_between(counters: Counters) -> None:
    meter = metering(counters)
    used = 0
    with meter.running():
        for _ in range(4):
            used += 6_000_000_000  # 2.4 ranges in all
            for domain in ("intel-rapl:0", "intel-rapl:0:1", "intel-rapl:1"):
                counters.set(domain, (counters.first[domain] + used) % (RANGE + 1))
            meter.look()
    assert meter.used.joules.value == pytest.approx(3 * 24_000)


def test_looks_count_only_while_the_meter_runs(counters: Counters) -> None:
    meter = metering(counters)
    with pytest.raises(KeyError), meter.running():
        raise KeyError
    counters.set("intel-rapl:0", 600)
    meter.look()
    with pytest.raises(EnergyUnknownError, match="not measured"):
        _ = meter.used


def test_what_cannot_be_read_is_not_counted(counters: Counters) -> None:
    (counters.folder / "intel-rapl:1" / "energy_uj").unlink()  # as if only root could
    (counters.folder / "intel-rapl:0" / "max_energy_range_uj").write_text("much\n")
    assert [d.name for d in readable_domains(counters.folder)] == ["dram"]


def test_a_host_without_counters(tmp_path: Path) -> None:
    meter = EnergyMeter(readable_domains(tmp_path / "absent"))
    with meter.running():
        pass
    with pytest.raises(EnergyUnknownError, match="the kernel lets no counter"):
        _ = meter.used


def test_counters_that_stand_still_tell_nothing(counters: Counters) -> None:
    meter = metering(counters)
    with meter.running():
        pass
    with pytest.raises(EnergyUnknownError, match=r"^package-0: its counter stood still$"):
        _ = meter.used


def test_one_counter_of_several_that_stands_still_is_not_zero_joules(counters: Counters) -> None:
    meter = metering(counters)
    with meter.running():
        counters.set("intel-rapl:0", 600)
        counters.set("intel-rapl:1", RANGE)
    with pytest.raises(EnergyUnknownError, match=r"^dram: its counter stood still$"):
        _ = meter.used
    with meter.running():
        counters.set("intel-rapl:0:1", 400)
    assert meter.used.joules.value == pytest.approx((500 + 10 + 100) / 1e6)


@pytest.mark.parametrize("begun", [True, False])
@pytest.mark.parametrize("says", [None, "", "much\n"])
def test_a_counter_that_can_no_longer_be_read_loses_no_run(
    counters: Counters, begun: bool, says: str | None
) -> None:
    meter = metering(counters)
    counter = counters.folder / "intel-rapl:0" / "energy_uj"

    def damage() -> None:
        counter.unlink()
        if says is not None:
            counter.write_text(says)

    if not begun:
        damage()
    with meter.running():
        if begun:
            damage()
        meter.look()
    with pytest.raises(EnergyUnknownError, match=r"^package-0: its counter can no longer be read"):
        _ = meter.used


def test_of_a_suspended_machine_the_energy_is_not_known(counters: Counters) -> None:
    """Counters go on meanwhile, but steps are timed by a clock that doesn't."""
    suspended = iter([7.0, 7.0, 7.05, 7.2])
    clock = itertools.count(0.0, 4.0).__next__
    meter = EnergyMeter(readable_domains(counters.folder), clock, suspended.__next__)

    def run() -> None:
        for domain in ("intel-rapl:0", "intel-rapl:0:1", "intel-rapl:1"):
            counters.set(domain, (counters.first[domain] + 1000) % (RANGE + 1))

    with meter.running():
        run()
        meter.look()
        meter.look()  # 50 ms are the time between two clocks' readings
        assert meter.used.joules.value == pytest.approx(3000 / 1e6)
    with pytest.raises(EnergyUnknownError, match=r"^the machine was suspended$"):
        _ = meter.used


def test_a_counter_that_nobody_looked_at_for_a_round_tells_nothing(counters: Counters) -> None:
    meter = EnergyMeter(readable_domains(counters.folder), itertools.count(0.0, 6.0).__next__)
    with meter.running():
        counters.set("intel-rapl:0", 600)
    with pytest.raises(EnergyUnknownError, match=r"package-0: .* gone round unseen in 6 s"):
        _ = meter.used


def metering(counters: Counters) -> EnergyMeter:
    """Meter by a clock that goes on by four seconds a look."""
    return EnergyMeter(readable_domains(counters.folder), itertools.count(0.0, 4.0).__next__)


def test_a_counter_that_is_set_back_has_not_gone_round(counters: Counters) -> None:
    meter = metering(counters)
    with meter.running():
        counters.set("intel-rapl:0", 90)
    with pytest.raises(EnergyUnknownError, match=r"package-0: its counter jumped"):
        _ = meter.used


def test_what_the_docs_let_the_agent_read_is_all_that_is_counted(tmp_path: Path) -> None:
    """The class's folder has links; a package's DRAM is a folder in that of the package."""
    real, linked = tmp_path / "sys/devices/virtual/powercap/intel-rapl", tmp_path / "class"
    names = {"0": "package-0", "0/0:0": "core", "0/0:1": "dram", "1": "package-1", "1/1:0": "dram"}
    linked.mkdir()
    for place, name in names.items():
        domain = "/".join(f"intel-rapl:{part}" for part in place.split("/"))
        (real / domain).mkdir(parents=True)
        Counters(real).fill(domain, name)
        (linked / Path(domain).name).symlink_to(real / domain)
    patterns = re.findall(r"^z /(\S+) 0440 root benchfarm$", FLEET.read_text(), re.MULTILINE)
    readable = {file for pattern in patterns for file in tmp_path.glob(pattern)}
    counted = readable_domains(linked)
    assert [domain.name for domain in counted] == ["package-0", "dram", "package-1", "dram"]
    assert {(domain.path / "energy_uj").resolve() for domain in counted} <= readable
