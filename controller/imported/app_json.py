"""The result JSON of MLPerf's mobile app, of its releases from 2.0 to 5.0. Pure.

Three forms, told apart by their fields: 2.x (a list; throughput a number, durations in ms), 3.0
(`loadgen_info`), from 3.1 on (`loadgen`, with the 90th percentile). The app's throughput of a
single stream is 1 / p90, in every release.
"""

from __future__ import annotations

from typing import Final

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from controller.contracts.base import Scalar
from controller.contracts.documents import DocumentRefused, load_json
from controller.imported.system import flat

MOST_BYTES: Final = 4 * 2**20
MOST_RESULTS: Final = 200
NAMES: Final = frozenset({"result.json", "results.json"})


class _Part(BaseModel):
    """A part of the JSON; what it has more is not read."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)


class Value(_Part):
    """A throughput, from 3.0 on."""

    value: float


class Accuracy(_Part):
    """`value` until 2.x, `normalized` from 3.0 on."""

    normalized: float | None = None
    value: float | None = None
    formatted: str = ""

    @property
    def number(self) -> float | None:
        """The accuracy, of which 1 is the whole; PSNR is in hundreds of dB."""
        return self.value if self.normalized is None else self.normalized


class Loadgen(_Part):
    """LoadGen's verdict; times in seconds."""

    query_count: int | None = None
    latency_mean: float | None = None
    latency90: float | None = None
    is_result_valid: bool | None = None
    validity: bool | None = None


class Dataset(_Part):
    """The data set of a run."""

    name: str = ""
    type: str = ""
    data_path: str = ""


class AppRun(_Part):
    """A performance or accuracy run of a benchmark."""

    throughput: float | Value | None = None
    accuracy: Accuracy | None = None
    dataset: Dataset = Dataset()
    measured_duration: float | None = None
    measured_duration_ms: float | None = None
    measured_samples: int = 0
    start_datetime: str
    loadgen: Loadgen | None = None
    loadgen_info: Loadgen | None = None
    loadgen_validity: bool | None = None

    @property
    def rate(self) -> float | None:
        """The throughput; of a single stream 1 / p90."""
        return self.throughput.value if isinstance(self.throughput, Value) else self.throughput

    @property
    def duration_s(self) -> float | None:
        """The measured duration in seconds."""
        if self.measured_duration is not None:
            return self.measured_duration
        return None if self.measured_duration_ms is None else self.measured_duration_ms / 1e3

    @property
    def valid(self) -> bool | None:
        """LoadGen's verdict; None if the JSON has none."""
        for said in (self.loadgen, self.loadgen_info):
            if said is not None:
                return said.validity if said.is_result_valid is None else said.is_result_valid
        return self.loadgen_validity


class Backend(_Part):
    """What computed the benchmark."""

    backend_name: str = ""
    vendor_name: str = ""
    accelerator_name: str = ""


class Settings(_Part):
    """How it was asked to."""

    accelerator_desc: str = ""
    framework: str = ""
    delegate: str = ""
    model_path: str = ""
    batch_size: int = 0


class AppResult(_Part):
    """The result of one benchmark."""

    benchmark_id: str = Field(min_length=1, max_length=100)
    loadgen_scenario: str
    backend_info: Backend = Backend()
    backend_settings: Settings = Settings()
    performance_run: AppRun | None = None
    accuracy_run: AppRun | None = None
    min_duration: float | None = None
    min_duration_ms: float | None = None
    min_samples: int | None = None


class Meta(_Part):
    """Which session of the app it is."""

    uuid: str = ""


class Android(_Part):
    """A phone, from 3.0 on."""

    os_version: str = ""
    manufacturer: str = ""
    model_code: str = ""
    model_name: str = ""
    board_code: str = ""


class Windows(_Part):
    """A PC, from 3.0 on."""

    os_version: str = ""
    cpu_full_name: str = ""


class EnvironmentValue(_Part):
    """One of these, as the platform says."""

    android: Android | None = None
    windows: Windows | None = None


class AppEnvironment(_Part):
    """The device: flat until 2.x, by platform from 3.0 on."""

    platform: str = ""
    value: EnvironmentValue = EnvironmentValue()
    os_name: str = ""
    os_version: str = ""
    manufacturer: str = ""
    model: str = ""


class Build(_Part):
    """The app."""

    version: str = ""
    git_branch: str = ""
    git_commit: str = ""


class AppSession(_Part):
    """All results of one session of the app."""

    meta: Meta = Meta()
    results: tuple[AppResult, ...] = Field(max_length=MOST_RESULTS)
    environment_info: AppEnvironment = AppEnvironment()
    build_info: Build = Build()

    @property
    def platform(self) -> str:
        """`android`, `windows` or `ios`; empty if the JSON does not say."""
        return self.environment_info.platform or self.environment_info.os_name

    @property
    def device(self) -> tuple[str, str]:
        """Manufacturer and model."""
        said = self.environment_info
        if phone := said.value.android:
            return phone.manufacturer, phone.model_name or phone.model_code
        if computer := said.value.windows:
            return "", computer.cpu_full_name
        return said.manufacturer, said.model


_SESSIONS: Final = TypeAdapter(tuple[AppSession, ...])


def read_app_json(text: str) -> tuple[tuple[AppSession, ...], list[dict[str, Scalar]]]:
    """Return the sessions of the app's JSON, and what it says of each one's device and build.

    Raises DocumentRefused, and ValidationError for JSON of another form.
    """
    raw = load_json(text, MOST_BYTES)
    listed = raw if isinstance(raw, list) else [raw]
    if not listed or not all(isinstance(one, dict) and "results" in one for one in listed):
        raise DocumentRefused("it is not the result JSON of the mobile app: it has no results")
    parts = ("environment_info", "build_info")
    described = [flat({name: one[name] for name in parts if name in one}) for one in listed]
    return _SESSIONS.validate_python(listed), described
