"""The peaks of this machine that were measured, in a folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter

from controller.contracts.base import digest
from controller.contracts.documents import read_json
from controller.contracts.peaks import MeasuredPeaks
from controller.contracts.unreadable import UNREADABLE
from controller.contracts.wire import WorkerSpec
from controller.platform.atomic import write_private
from controller.profiles.roofs import with_measured

_MEASURED: TypeAdapter[list[MeasuredPeaks]] = TypeAdapter(list[MeasuredPeaks])
_SETTINGS: Final = ("cores", "threads", "numa")
"""Launch settings that decide how much of a machine is used."""
_CPU: Final = "cpu_model"
_QUOTA: Final = "cpu_quota"


@dataclass(frozen=True, slots=True)
class KeptPeaks:
    """Measurements of all stacks, in a file for each CPU and part of the machine."""

    folder: Path

    def of(self, spec: WorkerSpec) -> Sequence[MeasuredPeaks]:
        """Return what is known for a job's CPU, its cores and its threads, by age."""
        try:
            return read_json(_MEASURED, self._file(spec))
        except UNREADABLE:  # missing, damaged, or of another release
            return ()

    def add(self, spec: WorkerSpec, *new: MeasuredPeaks) -> None:
        """Keep measurements beside those that are known."""
        known = self.of(spec)
        for one in new:
            known = with_measured(known, one)
        self.folder.mkdir(parents=True, exist_ok=True)
        write_private(self._file(spec), _MEASURED.dump_json(list(known)).decode())

    def _file(self, spec: WorkerSpec) -> Path:
        settings = {name: spec.job.knobs.get(name) for name in _SETTINGS}
        # Those whom these files are one file for hold the same cores' locks: none writes beside it.
        host = {"host_cores": sorted(spec.device.host_cores), _CPU: spec.device.facts.get(_CPU)}
        # Only where there is one: files of machines without keep their names.
        limited = {_QUOTA: quota} if (quota := spec.device.facts.get(_QUOTA)) is not None else {}
        return self.folder / f"machine-{digest({**settings, **host, **limited})}.json"
