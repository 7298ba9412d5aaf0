"""A phone's sensors: models driven by the CPU time that its processes really use."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agents.virtual_phone import battery as power
from agents.virtual_phone.battery import Battery
from agents.virtual_phone.filesystem import SERVICES, SYSFS
from agents.virtual_phone.profiles import Profile
from agents.virtual_phone.thermal import ThermalStatus, dumpsys_thermalservice
from controller.platform.atomic import replacing

PERIOD_S = 0.5
_THERMAL_SERVICE_API = 29


@dataclass(slots=True)
class Sensors:
    """The state of the models, and the files that show it."""

    profile: Profile
    cores: Sequence[int]
    battery: Battery
    temperatures: dict[str, float]
    """Zone → °C."""
    _cpu_s: float = 0.0
    _at: float = field(default_factory=time.monotonic)
    _shown: dict[Path, str] = field(default_factory=dict)

    @classmethod
    def at_rest(cls, profile: Profile, cores: Sequence[int]) -> Sensors:
        """Return the sensors of a phone that has long been idle."""
        return cls(profile, cores, profile.battery, profile.thermal.at_rest())

    @property
    def status(self) -> ThermalStatus:
        """The phone's thermal status."""
        return self.profile.thermal.status(self.temperatures)

    def step(self) -> None:
        """Advance the models to now, and write their files; called every PERIOD_S."""
        now, cpu_s = time.monotonic(), phone_cpu_s()
        elapsed_s = max(now - self._at, 1e-3)
        busy_cores = min(max(cpu_s - self._cpu_s, 0.0) / elapsed_s, float(len(self.cores)))
        self._at, self._cpu_s = now, cpu_s
        power_w = self.profile.thermal.power_w(busy_cores)
        self.temperatures = self.profile.thermal.after(self.temperatures, power_w, elapsed_s)
        self.battery = self.battery.after(power_w, elapsed_s)
        self.show(busy_cores)

    def show(self, busy_cores: float = 0.0) -> None:
        """Write the files whose content has changed."""
        for path, text in self._files(busy_cores):
            if self._shown.get(path) != text:
                self._shown[path] = text
                replace(path, text)

    def _files(self, busy_cores: float) -> Iterator[tuple[Path, str]]:
        profile, thermal = self.profile, self.profile.thermal
        power_w = thermal.power_w(busy_cores)
        battery_c = self.temperatures[profile.battery_zone]
        for number, zone in enumerate(thermal.zones):
            folder = SYSFS / f"thermal/thermal_zone{number}"
            yield folder / "type", zone.name
            yield folder / "temp", str(round(self.temperatures[zone.name] * 1000))
        for name, text in power.sysfs(self.battery, battery_c, power_w).items():
            yield SYSFS / "power_supply/battery" / name, text
        for core in self.cores:
            yield from self._frequency(core, busy_cores / len(self.cores))
        yield SERVICES / "battery", power.dumpsys_battery(self.battery, battery_c).rstrip("\n")
        if profile.api_level >= _THERMAL_SERVICE_API:
            text = dumpsys_thermalservice(thermal, self.temperatures)
            yield SERVICES / "thermalservice", text.rstrip("\n")

    def _frequency(self, core: int, load: float) -> Iterator[tuple[Path, str]]:
        cpu = self.profile.cpu
        khz = round(cpu.min_khz + (cpu.max_khz - cpu.min_khz) * load)
        folder = SYSFS / f"cpu/cpu{core}/cpufreq"
        for prefix in ("cpuinfo", "scaling"):
            yield folder / f"{prefix}_min_freq", str(cpu.min_khz)
            yield folder / f"{prefix}_max_freq", str(cpu.max_khz)
            yield folder / f"{prefix}_cur_freq", str(khz)
        yield folder / "scaling_governor", cpu.governor
        yield folder / "scaling_available_governors", cpu.governor


def phone_cpu_s() -> float:
    """Return the CPU seconds used so far by the phone's processes, ended ones included.

    Of the daemon and process 1, which belong to the host, only their children's time counts.
    """
    ticks = 0
    for pid, fields in _processes():
        own, children = fields[11:13], fields[13:15]
        ticks += sum(map(int, children if pid in (1, os.getpid()) else own + children))
    return ticks / os.sysconf("SC_CLK_TCK")


def phone_processes() -> int:
    """Return the number of live processes of the phone's commands."""
    return sum(pid not in (1, os.getpid()) and stat[0] != "Z" for pid, stat in _processes())


def _processes() -> Iterator[tuple[int, list[str]]]:
    """Yield each process of this namespace with the fields of its /proc/PID/stat, from the state
    on."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:  # ended meanwhile
                continue
            yield int(entry.name), fields


def replace(path: Path, text: str) -> None:
    """Replace a file atomically, so that no reader sees half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as new:
        new.write_text(text + "\n")
