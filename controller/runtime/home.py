"""Where a farm keeps its state on disk: BENCHFARM_HOME."""

from __future__ import annotations

import hmac
import os
import re
import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeVar
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from controller.contracts.adb_status import ADB_FOLDER, STATUS_FILES
from controller.contracts.base import Contract
from controller.contracts.documents import read_json
from controller.contracts.errors import FarmUnavailable, HomeUnusable, UserError
from controller.contracts.unreadable import UNREADABLE, reason
from controller.platform.atomic import write_private
from controller.platform.private_files import read_private, require_private_folder
from controller.platform.processes import FARM_MARKER
from controller.runtime.redis import RedisServer

_TOKEN = re.compile(r"[0-9A-Za-z._-]{16,256}")


PortNumber = Annotated[int, Field(ge=0, le=65535)]


class Process(Contract):
    """A process of this host, told from a later one of the same id."""

    pid: int
    started: int
    """Clock ticks after the host's start: no step of its clock changes them."""
    name: str


class Cluster(Contract):
    """The Ray cluster a farm runs on; written by `up` or on joining, removed by `down`."""

    instance: str
    """Value of the marker that everything of this farm on this host carries."""
    ray_address: str
    dashboard_url: str
    """Empty on a host that has joined."""
    temp_dir: str
    redis: RedisServer | None = None
    """Where Ray keeps its tables, under the name of the instance; None for in the head's memory."""
    options: dict[str, str] = {}
    """What `up` was told besides, by option."""
    head: tuple[Process, ...] = ()
    """What Ray's head node is made of; it is whole while they all run."""
    api_port: PortNumber = 0
    metrics_port: PortNumber = 0
    """Of the controller, which has them again when the farm is started again."""


def _with_port(url: str) -> str:
    if not urlsplit(url).port:  # raises ValueError for one that none can have
        raise ValueError("it names no port")
    return url


class Endpoint(Contract):
    """Where the controller listens; rewritten at each start of the controller."""

    url: Annotated[str, Field(pattern=r"^http://[^/:\s]+:[0-9]{1,5}$"), AfterValidator(_with_port)]
    version: str
    pid: int
    metrics_port: PortNumber = 0

    @property
    def address(self) -> str:
        """HOST:PORT of the URL."""
        return urlsplit(self.url).netloc


@dataclass(frozen=True, slots=True)
class Home:
    """The files of one farm."""

    path: Path

    @staticmethod
    def from_environment(environ: Mapping[str, str] = os.environ) -> Home:
        """Return the home named by BENCHFARM_HOME, else `~/.benchfarm`."""
        return Home(Path(environ.get("BENCHFARM_HOME") or "~/.benchfarm").expanduser().absolute())

    @property
    def store(self) -> Path:
        """The SQLite file."""
        return self.path / "store.sqlite"

    @property
    def cluster_file(self) -> Path:
        """The Cluster as JSON."""
        return self.path / "cluster.json"

    @property
    def wanted(self) -> Path:
        """The options of `up` as JSON: there while the farm is to be started again if it ends."""
        return self.path / "up.json"

    @property
    def up_lock(self) -> Path:
        """Held by who starts or ends the farm."""
        return self.path / "up.lock"

    @property
    def supervisor_lock(self) -> Path:
        """Held by who starts the farm again when it ends."""
        return self.path / "supervisor.lock"

    @property
    def standby_lock(self) -> Path:
        """Held by who takes over when that supervisor ends."""
        return self.path / "standby.lock"

    @property
    def endpoint_file(self) -> Path:
        """The Endpoint as JSON."""
        return self.path / "controller.json"

    @property
    def ray_token(self) -> Path:
        """Ray's token: full power over every host of the cluster."""
        return self.path / "ray-token"

    @property
    def api_token(self) -> Path:
        """The token of the controller's own HTTP interface."""
        return self.path / "api-token"

    @property
    def metrics_token(self) -> Path:
        """The token of the exporters, which Prometheus holds: it reads metrics and no more."""
        return self.path / "metrics-token"

    @property
    def prometheus(self) -> Path:
        """Configuration, data and log of the Prometheus that `up` or `demo` started."""
        return self.path / "prometheus"

    @property
    def prometheus_url(self) -> Path:
        """Where it listens; there while it runs."""
        return self.prometheus / "url"

    @property
    def prometheus_process(self) -> Path:
        """The Process as JSON."""
        return self.prometheus / "process.json"

    @property
    def logs(self) -> Path:
        """Logs of what `up` starts."""
        return self.path / "logs"

    @property
    def reports(self) -> Path:
        """Reports that the demo wrote."""
        return self.path / "reports"

    @property
    def agent(self) -> Path:
        """The agent's folder: artefacts, and outcomes not yet acknowledged."""
        return self.path / "agent"

    def adb_statuses(self) -> list[Path]:
        """Return the files in which this host's agents tell of their adb servers."""
        return sorted(self.agent.glob(f"*/{ADB_FOLDER}/{STATUS_FILES}"))

    def prepare(self) -> None:
        """Make the folder and its tokens, readable by the owner only; raises HomeUnusable."""
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            require_private_folder(self.path, f"use BENCHFARM_HOME {self.path}")
            self.logs.mkdir(exist_ok=True)
            for token in (self.ray_token, self.api_token):
                # An empty one would let anyone in.
                if not os.path.lexists(token) or not self.read_token(token):
                    write_private(token, secrets.token_hex(32))
            self._derive_metrics_token()
        except OSError as error:
            raise HomeUnusable(
                f"use BENCHFARM_HOME {self.path}",
                error.strerror or str(error),
                "Set BENCHFARM_HOME to a folder that you can write to.",
            ) from error

    def adopt_token(self, file: Path) -> None:
        """Keep another farm's Ray token here, as this host's agent belongs to it.

        Raises UserError for a file that has none.
        """
        tried = f"use --token-file {file}"
        remedy = "Copy the file ray-token of the head's BENCHFARM_HOME; only you may read the copy."
        token = read_private(file, tried, remedy)
        if not _TOKEN.fullmatch(token):
            raise UserError(tried, "it holds no token", remedy)
        self.prepare()
        write_private(self.ray_token, token)
        self._derive_metrics_token()

    @staticmethod
    def read_token(file: Path) -> str:
        """Return what one of the token files holds; raises UserError if it can't be trusted."""
        return read_private(file, f"read {file}", "Replace it by a file of your own.")

    def _derive_metrics_token(self) -> None:
        # The same on every host of a farm, and no way back to the other token.
        key = self.read_token(self.ray_token).encode()
        derived = hmac.digest(key, b"benchfarm metrics", "sha256").hex()
        with suppress(FileNotFoundError):
            if self.metrics_token.read_bytes() == derived.encode():
                return
        write_private(self.metrics_token, derived)

    def cluster(self) -> Cluster | None:
        """Return the cluster this home's farm runs on, or None if it is down."""
        return _read(Cluster, self.cluster_file)

    def endpoint(self) -> Endpoint:
        """Return where the controller listens; raises FarmUnavailable if it isn't up."""
        if endpoint := _read(Endpoint, self.endpoint_file):
            return endpoint
        raise FarmUnavailable(
            f"find the controller in {self.path}", "no farm is up here", "Run `benchfarm up`."
        )


def read_process(path: Path) -> Process | None:
    """Return the process that a file of a home names, if it is there."""
    return _read(Process, path)


Model = TypeVar("Model", Cluster, Endpoint, Process)


def _read(model: type[Model], path: Path) -> Model | None:
    try:
        return read_json(model, path)
    except FileNotFoundError:
        return None
    except OSError as error:
        remedy = "Set BENCHFARM_HOME to a folder that you can read, or be the user of its farm."
        raise HomeUnusable(f"read {path}", error.strerror or str(error), remedy) from error
    except UNREADABLE as error:
        remedy = f"End the processes with {FARM_MARKER} in their environment, then delete the file."
        seen = f"it is damaged: {reason(error)}"
        raise HomeUnusable(f"read {path}", seen, remedy) from error
