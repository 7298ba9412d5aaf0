from __future__ import annotations

from pathlib import Path

import pytest

from agents.host.energy import EnergyMeter, readable_domains

RANGE = 1_000_000


class Counters:
    """A powercap folder whose counters are set by hand."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def add(self, domain: str, name: str, microjoules: int = 0) -> None:
        path = self.folder / domain
        path.mkdir()
        (path / "name").write_text(f"{name}\n")
        (path / "max_energy_range_uj").write_text(f"{RANGE}\n")
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
    meter = EnergyMeter(readable_domains(counters.folder))
    assert meter.source == "rapl: package-0 dram package-1"
    assert meter.joules == 0
    with meter.running():
        counters.set("intel-rapl:0", 600)
        counters.set("intel-rapl:0:1", 400)
        counters.set("intel-rapl:0:0", 999)
        counters.set("intel-rapl:2", 999)
        counters.set("intel-rapl:1", 29)  # it went past its range: 10, then from 0 to 29
    assert meter.joules == pytest.approx((500 + 100 + 40) / 1e6)
    counters.set("intel-rapl:0", 900)  # not while it ran
    with meter.running():
        counters.set("intel-rapl:0", 1000)
    assert meter.joules == pytest.approx((500 + 100 + 40 + 100) / 1e6)


def test_counters_may_go_round_more_than_once_if_looked_at_in_between(counters: Counters) -> None:
    meter = EnergyMeter(readable_domains(counters.folder))
    used = 0
    with meter.running():
        for _ in range(4):
            used += 600_000  # 2.4 ranges in all
            counters.set("intel-rapl:0", (100 + used) % (RANGE + 1))
            meter.look()
    assert meter.joules == pytest.approx(2.4)


def test_looks_count_only_while_the_meter_runs(counters: Counters) -> None:
    meter = EnergyMeter(readable_domains(counters.folder))
    with pytest.raises(KeyError), meter.running():
        raise KeyError
    counters.set("intel-rapl:0", 600)
    meter.look()
    assert meter.joules == 0


def test_what_cannot_be_read_is_not_counted(counters: Counters) -> None:
    (counters.folder / "intel-rapl:1" / "energy_uj").unlink()  # as if only root could
    (counters.folder / "intel-rapl:0" / "max_energy_range_uj").write_text("much\n")
    assert [d.name for d in readable_domains(counters.folder)] == ["dram"]


def test_a_host_without_counters(tmp_path: Path) -> None:
    meter = EnergyMeter(readable_domains(tmp_path / "absent"))
    with meter.running():
        pass
    assert meter.joules is None
    assert meter.source is None
