"""Sampling of a device's conditions during a run, by a shell loop beside the runner.

The loop is a process of its own, so that it never holds the interpreter lock of the measured path,
and uses only what every Android shell has. Each round prints `at UPTIME`, then `NAME VALUE` lines;
values that can't be read are left out. `sleep` is the only program in each round; the services,
which cost more, are queried every second round. Thermal zones, which may share a name, appear as
`zone_NUMBER:NAME` (m°C), and power rails as `rail_uj:PLACE` (µJ counted) or `rail_uw:PLACE` (µW),
with `railname:PLACE` beside them: see docs/energy.md.
"""

from __future__ import annotations

import os
import resource
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

FILE: Final = "conditions.txt"
SCRIPT: Final = r"""
sys=${2:-/sys} proc=${3:-/proc}
tell() { if [ -r "$2" ] && read -r value <"$2" 2>/dev/null; then echo "$1 $value"; fi; }
round=0
while :; do
  read -r up rest <"$proc/uptime"
  echo "at $up"
  for name in status capacity temp current_now voltage_now charge_counter; do
    tell "battery_$name" "$sys/class/power_supply/battery/$name"
  done
  for zone in $sys/class/thermal/thermal_zone*; do
    if [ -r "$zone/type" ] && read -r name <"$zone/type"; then
      tell "zone_${zone##*zone}:$name" "$zone/temp"
    fi
  done
  for domain in $sys/class/powercap/intel-rapl:*; do
    if [ -r "$domain/energy_uj" ] && read -r name <"$domain/name"; then
      tell "${domain##*/intel-}:$name" "$domain/energy_uj"
      tell "range_${domain##*/intel-}:$name" "$domain/max_energy_range_uj"
    fi
  done
  hwmon=$sys/class/hwmon
  for rail in $hwmon/hwmon*/power[0-9]*_input $hwmon/hwmon*/energy[0-9]*_input; do
    chip=${rail%/*} part=${rail##*/} unit=uj
    case $part in power*) unit=uw ;; esac
    tell "rail_$unit:${chip##*/}:${part%_input}" "$rail"
    tell "railname:${chip##*/}:${part%_input}" "${rail%_input}_label"
  done
  for chip in $sys/bus/iio/devices/iio:device*; do
    if [ -r "$chip/energy_value" ]; then
      while read -r channel rest; do
        name=${channel#*\[}
        case $channel in
          CH[0-9]*\[*\],)
            echo "rail_uj:${chip##*:}:${channel%%\(*} $rest"
            echo "railname:${chip##*:}:${channel%%\(*} ${name%\],}"
            ;;
        esac
      done <"$chip/energy_value"
    fi
  done 2>/dev/null
  for cpu in $sys/devices/system/cpu/cpu[0-9]*; do
    tell "frequency_${cpu##*/}" "$cpu/cpufreq/scaling_cur_freq"
    tell "limit_${cpu##*/}" "$cpu/cpufreq/scaling_max_freq"
  done
  if [ $((round % 2)) -eq 0 ]; then
    dumpsys thermalservice 2>/dev/null | while read -r one two three; do
      if [ "$one $two" = "Thermal Status:" ]; then echo "thermal_status $three"; break; fi
    done
    if ! [ -r "$sys/class/power_supply/battery/temp" ]; then
      dumpsys battery 2>/dev/null | while read -r one two; do
        case $one in
          temperature:) echo "battery_temp $two" ;;
          level:) echo "battery_capacity $two" ;;
          status:)
            case $two in
              2) echo "battery_status Charging" ;;
              3) echo "battery_status Discharging" ;;
              4) echo "battery_status Not charging" ;;
              5) echo "battery_status Full" ;;
            esac
            ;;
        esac
      done
    fi
  fi
  round=$((round + 1))
  sleep "$1"
done
"""


class SamplerUse:
    """The cost of sampling; read it after the block."""

    def __init__(self) -> None:
        self.cpu_share = 0.0
        """CPU seconds a second of the whole loop."""


@contextmanager
def sampling(folder: Path, period_s: float) -> Iterator[SamplerUse]:
    """Append samples to FILE in a folder during the block; a period of 0 takes none."""
    use = SamplerUse()
    if not period_s:
        yield use
        return
    before, started = _children_cpu_s(), time.monotonic()
    with (folder / FILE).open("ab") as output:
        os.write(output.fileno(), b"\n")  # ends a line that an earlier loop left open
        process = subprocess.Popen(
            ("sh", "-c", SCRIPT, "sampler", f"{period_s:g}"),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.DEVNULL,
        )
        try:
            yield use
        finally:
            process.terminate()
            process.wait()
            elapsed = max(time.monotonic() - started, 1e-3)
            use.cpu_share = (_children_cpu_s() - before) / elapsed


def _children_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
