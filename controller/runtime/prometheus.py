"""Prometheus beside a farm: starting it and querying it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil
import yaml

from controller.contracts.documents import SHOWN
from controller.contracts.errors import UserError
from controller.metrics.discovery import TARGETS_PATH
from controller.metrics.prometheus_config import (
    CONFIG,
    Intervals,
    http_discovery,
    prometheus_files,
)
from controller.platform.atomic import write_private
from controller.platform.inherited import inherited
from controller.platform.processes import FARM_MARKER
from controller.runtime.health import home_mark
from controller.runtime.home import Home

START_S = 300.0
"""It reads its log of the last hours first."""
ASK_S = 10.0
SHOWN_CHARACTERS = 300
"""Characters shown of the server's error."""
_BESIDE = re.compile(r"http://127\.0\.0\.1:[0-9]{1,5}")
STOP_S = 10.0
RETRY_S = 0.05
Series = Mapping[str, Any]
"""One element of a response's `result`: `metric` (its labels) and `value` or `values`."""


class PrometheusUnavailable(UserError):
    """A Prometheus that is not installed, did not start, or does not answer."""


@dataclass(frozen=True, slots=True)
class Prometheus:
    """A Prometheus server that answers; the methods raise PrometheusUnavailable."""

    url: str

    def query(self, promql: str) -> list[Series]:
        """Return the series of an expression now."""
        found: list[Series] = self._ask("query", {"query": promql})["result"]
        return found

    def query_range(
        self, promql: str, start: float, end: float, step_s: float = 1.0
    ) -> list[Series]:
        """Return the series of an expression between two times (seconds since the epoch)."""
        over = {"query": promql, "start": start, "end": end, "step": step_s}
        found: list[Series] = self._ask("query_range", over)["result"]
        return found

    def get(self, path: str, parameters: Mapping[str, Any] | None = None) -> Any:  # noqa: ANN401
        """Return the `data` of any other path of Prometheus's HTTP API (v1)."""
        return self._ask(path, parameters or {})

    def _ask(self, path: str, parameters: Mapping[str, Any]) -> Any:  # noqa: ANN401 - JSON
        try:
            answer = _get(f"{self.url}/api/v1/{path}", parameters)
            said = answer.json()
        except (httpx.HTTPError, httpx.InvalidURL, ValueError, OverflowError) as error:
            raise PrometheusUnavailable(
                f"ask Prometheus at {self.url[:SHOWN]}", str(error), "Check that it still runs."
            ) from error
        if not isinstance(said, dict):
            raise PrometheusUnavailable(
                f"ask Prometheus at {self.url[:SHOWN]}",
                "its answer is no JSON object",
                "Name the address of a Prometheus.",
            )
        if said.get("status") != "success":
            raise PrometheusUnavailable(
                f"ask Prometheus for {parameters.get('query', path)}",
                str(said.get("error", answer.status_code))[:SHOWN_CHARACTERS],
                "Correct the query.",
            )
        return said["data"]


@dataclass(frozen=True, slots=True)
class StartedPrometheus:
    """A Prometheus that this process started."""

    server: Prometheus
    process: subprocess.Popen[bytes]

    def stop(self) -> None:
        """Stop it and wait for its end; its data stays."""
        self.process.terminate()
        try:
            self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def find_program(name: str) -> Path:
    """Return the path of `prometheus` or `promtool`; raises PrometheusUnavailable."""
    if found := shutil.which(name):
        return Path(found)
    raise PrometheusUnavailable(
        f"find {name} in PATH",
        "it is not installed",
        "Install Debian's package `prometheus`, or run `make setup && . .deps/env`.",
    )


def _pages(program: Path) -> tuple[str, ...]:
    """Return the option for the pages of Debian's Prometheus if it is unpacked somewhere.

    It looks for them where the package would be installed. Other builds contain their pages.
    """
    pages = program.resolve().parent.parent / "share" / "prometheus" / "web"
    return (f"--web.local-assets={pages}",) if pages.is_dir() else ()


def write_files(folder: Path, files: Mapping[str, Mapping[str, Any]]) -> None:
    """Write the files of prometheus_config.prometheus_files as YAML; raises UserError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in files.items():
            text = yaml.dump(dict(data), Dumper=_Dumper, sort_keys=False, width=100)
            (folder / name).write_text(f"# Made by: benchfarm prometheus config\n{text}")
    except OSError as error:
        seen = error.strerror or str(error)
        raise UserError(f"write {folder}", seen, "Name a folder that you can write to.") from error


class _Dumper(yaml.SafeDumper):
    """A YAML writer for people: no references, texts of several lines as blocks."""

    def ignore_aliases(self, data: object) -> bool:
        return True


_Dumper.add_representer(
    str,
    lambda dumper, text: dumper.represent_scalar(
        "tag:yaml.org,2002:str", text, style="|" if "\n" in text else None
    ),
)


def start_prometheus(
    folder: Path,
    files: Mapping[str, Mapping[str, Any]],
    environ: Mapping[str, str] = os.environ,
) -> StartedPrometheus:
    """Start Prometheus on a free loopback port and wait until it answers.

    folder: for its configuration, its log and its data, which it continues. Raises
    PrometheusUnavailable.
    """
    program = find_program("prometheus")
    write_files(folder, files)
    log = folder / "prometheus.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [
                str(program),
                *(f"--config.file={folder / CONFIG}", f"--storage.tsdb.path={folder / 'data'}"),
                *("--web.listen-address=127.0.0.1:0", "--enable-feature=exemplar-storage"),
                *_pages(program),
            ],
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,  # a Ctrl-C of the caller must not reach it
        )
    try:
        url = f"http://127.0.0.1:{_await_port(process, log)}"
        _await_ready(url, process, log)
    except BaseException:
        process.kill()
        process.wait()
        raise
    return StartedPrometheus(Prometheus(url), process)


def running_beside(home: Home) -> Prometheus | None:
    """Return the Prometheus of a farm; None if none was started or it does not answer."""
    try:
        url = home.prometheus_url.read_text(errors="replace")
        if not _BESIDE.fullmatch(url):
            return None  # damaged
        server = Prometheus(url)
        server.get("status/buildinfo")
    except (FileNotFoundError, PrometheusUnavailable):
        return None
    return server


def start_beside(home: Home, intervals: Intervals) -> StartedPrometheus:
    """Start Prometheus for the farm of a home; it is stopped with the farm.

    Raises PrometheusUnavailable, FarmUnavailable.
    """
    endpoint = home.endpoint()
    marker = {FARM_MARKER: home_mark(home, "prometheus")}
    discovery = http_discovery(endpoint.url + TARGETS_PATH, home.metrics_token)
    files = prometheus_files(discovery, home.metrics_token, intervals)
    started = start_prometheus(home.prometheus, files, {**inherited(os.environ), **marker})
    write_private(home.prometheus_url, started.server.url)
    return started


def _await_port(process: subprocess.Popen[bytes], log: Path) -> int:
    give_up = time.monotonic() + START_S
    while True:
        _complain_if_over(process, log, give_up)
        try:
            for connection in psutil.Process(process.pid).net_connections("tcp"):
                if connection.status == psutil.CONN_LISTEN:
                    return int(connection.laddr.port)
        except psutil.NoSuchProcess:
            continue  # it has just ended, which the next look at its status tells
        time.sleep(RETRY_S)


def _await_ready(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until it has read its stored data."""
    give_up = time.monotonic() + START_S
    while not _is_ready(url):
        _complain_if_over(process, log, give_up)
        time.sleep(RETRY_S)


def _is_ready(url: str) -> bool:
    try:
        return _get(f"{url}/-/ready", {}).is_success
    except httpx.TransportError:
        return False


def _get(url: str, parameters: Mapping[str, Any]) -> httpx.Response:
    # It is on loopback, whatever proxy the environment names.
    return httpx.get(url, params=parameters, timeout=ASK_S, trust_env=False)


def _complain_if_over(process: subprocess.Popen[bytes], log: Path, give_up: float) -> None:
    if process.poll() is None and time.monotonic() < give_up:
        return
    ended = process.returncode is not None
    seen = (
        f"it exited with {process.returncode}"
        if ended
        else f"it has not answered within {START_S:.0f} s"
    )
    raise PrometheusUnavailable("start Prometheus", seen, f"See its output in {log}.")
