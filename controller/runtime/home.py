"""Where a farm keeps its state on disk: BENCHFARM_HOME."""

from __future__ import annotations

import hmac
import os
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from controller.contracts.adb_status import ADB_FOLDER, STATUS_FILES
from controller.contracts.base import Contract
from controller.contracts.errors import FarmUnavailable, HomeUnusable, UserError
from controller.contracts.processes import FARM_MARKER
from controller.runtime.redis import RedisServer

_TOKEN = re.compile(r"[0-9A-Za-z._-]{16,256}")


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


class Endpoint(Contract):
    """Where the controller listens; rewritten at each start of the controller."""

    url: str
    version: str
    pid: int


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
            self.logs.mkdir(exist_ok=True)
            for token in (self.ray_token, self.api_token):
                if not token.exists() or not token.stat().st_size:  # empty would let anyone in
                    write_private(token, secrets.token_hex(32))
            self._derive_metrics_token()
        except OSError as error:
            raise HomeUnusable(
                f"preparing BENCHFARM_HOME {self.path}",
                error.strerror or str(error),
                "point BENCHFARM_HOME at a folder you can write to",
            ) from error

    def adopt_token(self, file: Path) -> None:
        """Keep another farm's Ray token here, as this host's agent belongs to it.

        Raises UserError for a file that has none.
        """
        try:
            token = file.read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            seen = getattr(error, "strerror", None) or "it is not text"
            raise _no_token(file, seen) from error
        if not _TOKEN.fullmatch(token):
            raise _no_token(file, "it holds no token")
        self.prepare()
        write_private(self.ray_token, token)
        self._derive_metrics_token()

    def _derive_metrics_token(self) -> None:
        # The same on every host of a farm, and no way back to the other token.
        key = self.ray_token.read_text().strip().encode()
        derived = hmac.digest(key, b"benchfarm metrics", "sha256").hex()
        if not self.metrics_token.exists() or self.metrics_token.read_text() != derived:
            write_private(self.metrics_token, derived)

    def cluster(self) -> Cluster | None:
        """Return the cluster this home's farm runs on, or None if it is down."""
        return _read(Cluster, self.cluster_file)

    def endpoint(self) -> Endpoint:
        """Return where the controller listens; raises FarmUnavailable if it isn't up."""
        if endpoint := _read(Endpoint, self.endpoint_file):
            return endpoint
        raise FarmUnavailable(
            f"looking for the controller in {self.path}", "no farm is up here", "run: benchfarm up"
        )


def _no_token(file: Path, seen: str) -> UserError:
    remedy = "copy the ray-token file of the head's BENCHFARM_HOME, readable by its owner only"
    return UserError(f"option --token-file {file}", seen, remedy)


def write_private(path: Path, text: str) -> None:
    """Replace a file at once by one that only its owner can read."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError:  # a full disk, say: what it holds already isn't made more
        temporary.unlink(missing_ok=True)
        raise


Model = TypeVar("Model", Cluster, Endpoint)


def _read(model: type[Model], path: Path) -> Model | None:
    try:
        return model.model_validate_json(path.read_text())
    except FileNotFoundError:
        return None
    except OSError as error:
        remedy = "point BENCHFARM_HOME at a folder that you can read, or be the user of its farm"
        raise HomeUnusable(f"reading {path}", error.strerror or str(error), remedy) from error
    except (UnicodeDecodeError, ValidationError) as error:
        remedy = f"end what carries {FARM_MARKER} in its environment, then delete the file"
        raise HomeUnusable(f"reading {path}", "it is damaged", remedy) from error
