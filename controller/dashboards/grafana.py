"""A client for Grafana's HTTP interface with the calls that `push` needs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self, TypeVar
from urllib.parse import urlsplit

from grafana_client import GrafanaApi
from grafana_client.client import GrafanaClientError, GrafanaException, GrafanaServerError

from controller.contracts.errors import UserError
from controller.dashboards.board import Json

OLDEST = (10, 0)
"""The oldest supported release; earlier ones differ in legends and provisioned alerts."""
TIMEOUT_S = 20.0
Credential = str | tuple[str, str]
"""A token, or user name and password."""
Answer = TypeVar("Answer")


class GrafanaUnavailable(UserError):
    """No Grafana answers at the address, or its release is too old."""


class GrafanaRefused(UserError):
    """Grafana refused a request."""


@dataclass(frozen=True, slots=True)
class Address:
    """The address of a Grafana server."""

    scheme: str
    host: str
    """With the brackets of an IPv6 address."""
    port: int | None
    path: str
    """Path prefix without leading and trailing slashes; usually empty."""

    @classmethod
    def of(cls, url: str) -> Self:
        """Parse an address; raises GrafanaUnavailable, which never repeats a possible secret."""
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
        except ValueError as error:
            raise _no_address() from error
        if parts.scheme not in ("http", "https") or not host:
            raise _no_address()
        if parts.username or parts.password or parts.query:
            remedy = "Use --token-file, --user, or the environment variable GRAFANA_TOKEN."
            raise GrafanaUnavailable(
                "use --url", "it holds a password or a query beside the address", remedy
            )
        return cls(parts.scheme, f"[{host}]" if ":" in host else host, port, parts.path.strip("/"))

    def dashboard(self, uid: str) -> str:
        """Return the URL of a dashboard in a browser."""
        return f"{self}/d/{uid}"

    def __str__(self) -> str:
        port = f":{self.port}" if self.port else ""
        path = f"/{self.path}" if self.path else ""
        return f"{self.scheme}://{self.host}{port}{path}"


@dataclass(frozen=True, slots=True)
class Stored:
    """A dashboard on the server."""

    dashboard: Json
    version: int
    message: str
    """Save message of its newest version."""
    provisioned: bool


class Grafana:
    """A connection to one server; methods raise GrafanaUnavailable, GrafanaRefused."""

    def __init__(self, address: Address, api: GrafanaApi) -> None:
        self.address = address
        self._api = api

    def version(self) -> str:
        """Return the server's release; raises GrafanaUnavailable if it is too old or unknown."""
        tried = f"use Grafana at {self.address}"
        health = self._look(tried, lambda: self._api.client.GET("/health"))
        if not isinstance(health, Mapping) or "database" not in health:
            raise _not_grafana(self.address)
        build = self._call(tried, self._api.health.check)
        release = str(build.get("version", ""))
        number = re.match(r"(\d+)\.(\d+)", release)
        if not number or (int(number[1]), int(number[2])) < OLDEST:
            oldest = ".".join(map(str, OLDEST))
            seen = f"it is Grafana {release or 'of an unknown release'}"
            raise GrafanaUnavailable(tried, seen, f"Use {oldest} or newer.")
        return release

    def folder(self, uid: str) -> Json | None:
        """Return a folder, or None."""
        return self._look(f"look up folder {uid}", lambda: self._api.folder.get_folder(uid))

    def create_folder(self, uid: str, title: str) -> None:
        """Create a folder."""
        self._call(f"create folder {title}", lambda: self._api.folder.create_folder(title, uid))

    def data_source(self, uid: str) -> Json | None:
        """Return a data source, or None."""
        tried = f"look up data source {uid}"
        return self._look(tried, lambda: self._api.datasource.get_datasource_by_uid(uid))

    def create_data_source(self, source: Json) -> None:
        """Create a data source."""
        tried = f"create data source {source['name']}"
        self._call(tried, lambda: self._api.datasource.create_datasource(source))

    def update_data_source(self, source: Json) -> None:
        """Replace the data source with the same uid."""
        tried = f"update data source {source['name']}"
        uid = source["uid"]
        self._call(tried, lambda: self._api.datasource.update_datasource_by_uid(uid, source))

    def dashboard(self, uid: str) -> Stored | None:
        """Return a dashboard, or None."""
        tried = f"look up dashboard {uid}"
        found = self._look(tried, lambda: self._api.dashboard.get_dashboard(uid))
        if found is None:
            return None
        versions = self._call(
            f"read the history of dashboard {uid}",
            lambda: self._api.dashboard_versions.get_dashboard_versions_by_uid(uid),
        )
        # Grafana before 11.5 answers with the list itself.
        listed = versions["versions"] if isinstance(versions, Mapping) else versions
        newest: Json = max(listed, key=lambda version: int(version["version"]), default={})
        return Stored(
            dashboard=found["dashboard"],
            version=int(found["dashboard"].get("version", 0)),
            message=str(newest.get("message", "")),
            provisioned=bool(found["meta"].get("provisioned", False)),
        )

    def save_dashboard(self, dashboard: Json, folder_uid: str, message: str) -> None:
        """Save a dashboard over the version that it names, or as a new one if it names none."""
        body = {
            "dashboard": dashboard,
            "folderUid": folder_uid,
            "message": message,
            "overwrite": False,
        }
        tried = f"save dashboard {dashboard['title']}"
        self._call(tried, lambda: self._api.dashboard.update_dashboard(body))

    def alert_group(self, folder_uid: str, name: str) -> Json | None:
        """Return a group of alert rules, or None."""
        provisioning = self._api.alertingprovisioning
        tried = f"look up alerts {name}"
        return self._look(tried, lambda: provisioning.get_rule_group(folder_uid, name))

    def replace_alert_group(self, folder_uid: str, name: str, group: Json) -> None:
        """Create or replace a group of alert rules."""
        provisioning = self._api.alertingprovisioning
        tried = f"save alerts {name}"
        self._call(tried, lambda: provisioning.update_rule_group(folder_uid, name, group))

    def _look(self, tried: str, ask: Callable[[], Json]) -> Json | None:
        """Return the answer, or None if Grafana answers "not found"."""

        def ask_or_none() -> Json | None:
            try:
                return ask()
            except GrafanaClientError as error:
                if error.status_code == 404:
                    return None
                raise

        return self._call(tried, ask_or_none)

    def _call(self, tried: str, ask: Callable[[], Answer]) -> Answer:
        try:
            return ask()
        except GrafanaClientError as error:
            raise _refusal(tried, error) from error
        except GrafanaServerError as error:
            seen = f"Grafana failed with status {error.status_code}: {_said(error)}"
            raise GrafanaUnavailable(tried, seen, "See Grafana's log.") from error
        except (GrafanaException, OSError, ValueError) as error:
            seen = f"Grafana does not answer at {self.address} ({type(error).__name__})"
            raise GrafanaUnavailable(tried, seen, _CHECK_URL) from error


_CHECK_URL = "Give the address that a browser shows for Grafana, such as http://localhost:3000."


@contextmanager
def connected(url: str, credential: Credential) -> Iterator[Grafana]:
    """Yield the Grafana at an address; sends no request by itself.

    Raises GrafanaUnavailable for an invalid address.
    """
    address = Address.of(url)
    api = GrafanaApi(
        credential,
        protocol=address.scheme,
        host=address.host,
        port=address.port,
        url_path_prefix=f"{address.path}/" if address.path else "",
        timeout=TIMEOUT_S,
    )
    try:
        yield Grafana(address, api)
    finally:
        api.client.s.close()


def _refusal(tried: str, error: GrafanaClientError) -> GrafanaRefused:
    """Return the error for a status from 400 to 499, with what a user can do."""
    said, remedy = _said(error), "See Grafana's log."
    if error.status_code == 401:
        said = "Grafana does not accept the token or password"
        remedy = "Create a service account token in Grafana: Administration, Service accounts."
    elif error.status_code == 403:
        said = f"the account lacks the right: {said}"
        remedy = (
            "Give the account the role Editor for dashboards and Admin for data source and alerts, "
            "or leave those two out with --data-source UID --no-alerts."
        )
    elif error.status_code == 412:
        remedy = "Push again, or rename what has the same name."
    else:
        said = f"status {error.status_code}: {said}"
    return GrafanaRefused(tried, said, remedy)


def _no_address() -> GrafanaUnavailable:
    return GrafanaUnavailable("use --url", "it is not an http address", _CHECK_URL)


def _not_grafana(address: Address) -> GrafanaUnavailable:
    tried = f"use Grafana at {address}"
    return GrafanaUnavailable(tried, "what answers there is not Grafana", _CHECK_URL)


def _said(error: GrafanaException) -> str:
    """Return Grafana's message of an error."""
    response: Any = error.response
    said = response.get("message", "") if isinstance(response, Mapping) else response
    return " ".join(str(said).split())[:200].rstrip(".") or "no reason given"
