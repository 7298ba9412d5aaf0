"""The folder of a farm's state: BENCHFARM_HOME."""

from __future__ import annotations

import hmac
import os
import re
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeVar
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from controller.contracts.adb_status import ADB_FOLDER, STATUS_FILES
from controller.contracts.base import Contract
from controller.contracts.documents import read_json
from controller.contracts.errors import FarmUnavailable, HomeUnusable, UserError
from controller.contracts.retention import FOLDER
from controller.contracts.unreadable import UNREADABLE, reason
from controller.platform.atomic import write_private
from controller.platform.private_files import read_private, require_private_folder
from controller.platform.processes import FARM_MARKER
from controller.runtime.redis import RedisServer

BE_ITS_USER = "Run this as the user of the farm, as with `sudo -u USER BENCHFARM_HOME=…`."
_TOKEN = re.compile(r"[0-9A-Za-z._-]{16,256}")


PortNumber = Annotated[int, Field(ge=0, le=65535)]


class Process(Contract):
    """A process of this host, distinct from a later one with the same id."""

    pid: int
    started: int
    """Clock ticks after the host's boot; not affected by changes of its clock."""
    name: str


class ApiProcess(Contract):
    """The API that `up` serves beside a farm."""

    url: str
    """The address of its page."""
    arguments: tuple[str, ...]
    """The options that it was started with."""
    process: Process


class Cluster(Contract):
    """The Ray cluster of a farm; written by `up` or on joining, removed by `down`."""

    instance: str
    """Value of the marker in the environment of this farm's processes on this host."""
    ray_address: str
    dashboard_url: str
    """Empty on a host that has joined."""
    temp_dir: str
    redis: RedisServer | None = None
    """Redis with Ray's tables, under the name of the instance; None if the head keeps them."""
    options: dict[str, str] = {}
    """The other options of `up`, by name."""
    head: tuple[Process, ...] = ()
    """The processes of Ray's head node, which is whole while they all run."""
    api_port: PortNumber = 0
    metrics_port: PortNumber = 0
    """Ports of the controller, which uses them again after a restart of the farm."""


def _with_port(url: str) -> str:
    if not urlsplit(url).port:  # raises ValueError for one that none can have
        raise ValueError("it names no port")
    return url


class Endpoint(Contract):
    """The controller's address; rewritten at each start of the controller."""

    url: Annotated[str, Field(pattern=r"^http://[^/:\s]+:[0-9]{1,5}$"), AfterValidator(_with_port)]
    version: str
    pid: int
    metrics_port: PortNumber = 0
    manifests: str = ""
    """Digest of the manifests that the controller has read."""

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
        """Return the home named by BENCHFARM_HOME, else `~/.benchfarm`; raises HomeUnusable."""
        named = environ.get("BENCHFARM_HOME") or "~/.benchfarm"
        remedy = "Set BENCHFARM_HOME to a folder of your own, with a name in UTF-8."
        try:
            path = Path(named).expanduser().absolute()
            os.fsencode(path).decode()
        except RuntimeError as error:
            seen = "the user has no home folder"
            raise HomeUnusable(f"use BENCHFARM_HOME {named}", seen, remedy) from error
        except UnicodeDecodeError as error:
            shown = os.fsencode(path).decode(errors="replace")
            seen = "its path is not UTF-8"
            raise HomeUnusable(f"use BENCHFARM_HOME {shown}", seen, remedy) from error
        return Home(path)

    @property
    def owner(self) -> int | None:
        """The user whose farm it is; None if there is none."""
        return self.path.stat().st_uid if self.path.exists() else None

    @property
    def store(self) -> Path:
        """The SQLite file."""
        return self.path / "store.sqlite"

    def has_store(self) -> bool:
        """Return whether there is a store; raises HomeUnusable if this user can't tell."""
        try:
            return self.store.is_file()
        except OSError as error:
            raise _unreadable(self.store, error) from error

    @property
    def artefacts(self) -> Path:
        """The head's artefact store: what agents have sent of their attempts."""
        return self.path / FOLDER

    @property
    def cluster_file(self) -> Path:
        """The Cluster as JSON."""
        return self.path / "cluster.json"

    @property
    def wanted(self) -> Path:
        """The options of `up` as JSON; exists while the farm is to be restarted if it ends."""
        return self.path / "up.json"

    @property
    def up_lock(self) -> Path:
        """Lock of the process that starts or ends the farm."""
        return self.path / "up.lock"

    @property
    def supervisor_lock(self) -> Path:
        """Lock of the supervisor, which restarts the farm when it ends."""
        return self.path / "supervisor.lock"

    @property
    def standby_lock(self) -> Path:
        """Lock of the standby, which takes over when the supervisor ends."""
        return self.path / "standby.lock"

    @property
    def endpoint_file(self) -> Path:
        """The Endpoint as JSON."""
        return self.path / "controller.json"

    @property
    def ray_token(self) -> Path:
        """Ray's token, which gives full power over every host of the cluster."""
        return self.path / "ray-token"

    @property
    def api_token(self) -> Path:
        """The token of the controller's own HTTP interface."""
        return self.path / "api-token"

    @property
    def metrics_token(self) -> Path:
        """The token of the exporters, for Prometheus; it only reads metrics."""
        return self.path / "metrics-token"

    @property
    def prometheus(self) -> Path:
        """Configuration, data and log of the Prometheus that `up` or `demo` started."""
        return self.path / "prometheus"

    @property
    def prometheus_url(self) -> Path:
        """File with that Prometheus's URL; exists while it runs."""
        return self.prometheus / "url"

    @property
    def prometheus_process(self) -> Path:
        """That Prometheus's Process as JSON."""
        return self.prometheus / "process.json"

    @property
    def api_file(self) -> Path:
        """The ApiProcess as JSON; exists while `up` serves the API."""
        return self.path / "api.json"

    @property
    def logs(self) -> Path:
        """Logs of what `up` starts."""
        return self.path / "logs"

    @property
    def reports(self) -> Path:
        """Reports written by the demo."""
        return self.path / "reports"

    @property
    def agent(self) -> Path:
        """The agent's folder: artefacts, and outcomes not yet acknowledged."""
        return self.path / "agent"

    def adb_statuses(self) -> list[Path]:
        """Return the status files of this host's adb servers."""
        return sorted(self.agent.glob(f"*/{ADB_FOLDER}/{STATUS_FILES}"))

    def prepare(self) -> None:
        """Make the folder and its tokens, readable by the owner only; raises HomeUnusable."""
        with self._writing():
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            remedy = f"{BE_ITS_USER} Or set BENCHFARM_HOME to a folder of your own."
            require_private_folder(self.path, f"use BENCHFARM_HOME {self.path}", remedy)
            self.logs.mkdir(exist_ok=True)
            for token in (self.ray_token, self.api_token):
                # An empty one would let anyone in.
                if not os.path.lexists(token) or not self.read_token(token):
                    write_private(token, secrets.token_hex(32))
            self._derive_metrics_token()

    def adopt_token(self, file: Path) -> None:
        """Store the Ray token of another farm that this host's agent joins.

        Raises UserError for a file without one, HomeUnusable.
        """
        tried = f"use --token-file {file}"
        remedy = "Copy the file ray-token of the head's BENCHFARM_HOME; only you may read the copy."
        token = read_private(file, tried, remedy)
        if not _TOKEN.fullmatch(token):
            raise UserError(tried, "it holds no token", remedy)
        self.prepare()
        with self._writing():
            write_private(self.ray_token, token)
            self._derive_metrics_token()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Have an OSError raised as HomeUnusable."""
        try:
            yield
        except OSError as error:
            raise HomeUnusable(
                f"use BENCHFARM_HOME {self.path}",
                error.strerror or str(error),
                "Set BENCHFARM_HOME to a folder that you can write to.",
            ) from error

    @staticmethod
    def read_token(file: Path) -> str:
        """Return the token in a file; raises UserError if the file cannot be trusted."""
        mend = "Replace it by a file of your own."
        return read_private(file, f"read {file}", mend, remedy_for_theirs=BE_ITS_USER)

    def _derive_metrics_token(self) -> None:
        # The same on every host of a farm, and no way back to the other token.
        key = self.read_token(self.ray_token).encode()
        derived = hmac.digest(key, b"benchfarm metrics", "sha256").hex()
        with suppress(FileNotFoundError):
            if self.metrics_token.read_bytes() == derived.encode():
                return
        write_private(self.metrics_token, derived)

    def cluster(self) -> Cluster | None:
        """Return the cluster of this home's farm; None if it is down."""
        return _read(Cluster, self.cluster_file)

    def api_process(self) -> ApiProcess | None:
        """Return the API that was started beside the farm; None without one."""
        return _read(ApiProcess, self.api_file)

    def endpoint(self) -> Endpoint:
        """Return the controller's address; raises FarmUnavailable if it is not up."""
        if endpoint := _read(Endpoint, self.endpoint_file):
            return endpoint
        raise FarmUnavailable(
            f"find the controller in {self.path}", "no farm is up here", "Run `benchfarm up`."
        )


def read_process(path: Path) -> Process | None:
    """Return the process in a file of a home; None without the file."""
    return _read(Process, path)


Model = TypeVar("Model", ApiProcess, Cluster, Endpoint, Process)


def _read(model: type[Model], path: Path) -> Model | None:
    try:
        return read_json(model, path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unreadable(path, error) from error
    except UNREADABLE as error:
        remedy = f"End the processes with {FARM_MARKER} in their environment, then delete the file."
        seen = f"it is damaged: {reason(error)}"
        raise HomeUnusable(f"read {path}", seen, remedy) from error


def _unreadable(path: Path, error: OSError) -> HomeUnusable:
    remedy = "Set BENCHFARM_HOME to a folder that you can read, or be the user of its farm."
    return HomeUnusable(f"read {path}", error.strerror or str(error), remedy)
