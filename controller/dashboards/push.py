"""Bringing dashboards and alerts to a Grafana server, and leaving alone what users changed there.

Every version that we save carries a message with the fingerprint of what was saved. So the newest
version tells whether a user has saved since: only then its message is another. Grafana may bring
a dashboard's JSON up to date when it is read, so the JSON itself can't tell.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from controller.contracts.errors import UserError
from controller.dashboards.alerts import FOLDER, GROUP, alert_group
from controller.dashboards.board import Json
from controller.dashboards.files import PROMETHEUS_URL, built_dashboards, data_source
from controller.dashboards.grafana import Grafana, GrafanaRefused, Stored
from controller.dashboards.links import TAG
from controller.dashboards.variables import SOURCE_UID

OURS = "benchfarm dashboards push"
"""How the message of every version that we save begins."""
EDITED_TAG = "benchfarm-edited"


class Move(StrEnum):
    """What is to be done with one dashboard."""

    CREATE = "created"
    UPDATE = "updated"
    NOTHING = "unchanged"
    KEEP_EDITS = "updated; your changes are kept apart"


@dataclass(frozen=True, slots=True)
class Wish:
    """What the user asked for."""

    prometheus_url: str | None = None
    """Where Grafana reaches Prometheus; None: leave an existing data source as it is."""
    source_uid: str | None = None
    """An existing data source to use instead of one of ours."""
    alerts: bool = True
    overwrite: bool = False
    """Don't keep users' changes apart; Grafana's history of versions still has them."""


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that was done, or was found done."""

    what: str
    done: str

    @property
    def changed(self) -> bool:
        """Whether the server is another than before."""
        return self.done != Move.NOTHING


def push(grafana: Grafana, wish: Wish) -> Iterator[Step]:
    """Bring everything to the server, step by step; doing it twice changes nothing.

    Raises GrafanaUnavailable, GrafanaRefused.
    """
    grafana.version()
    yield _push_folder(grafana)
    yield _push_data_source(grafana, wish)
    source_uid = wish.source_uid or SOURCE_UID
    for dashboard in built_dashboards(source_uid):
        yield from _push_dashboard(grafana, dashboard, overwrite=wish.overwrite)
    if wish.alerts:
        yield _push_alerts(grafana, alert_group(source_uid))


def decide(stored: Stored | None, message: str, *, overwrite: bool) -> Move:
    """Return what to do with a dashboard that is to be saved with a message."""
    if stored is None:
        return Move.CREATE
    if stored.message == message:
        return Move.NOTHING
    if overwrite or stored.message.startswith(OURS):
        return Move.UPDATE
    return Move.KEEP_EDITS


def message_for(dashboard: Mapping[str, Any]) -> str:
    """Return what the version of a dashboard is saved with."""
    canonical = json.dumps(dashboard, sort_keys=True).encode()
    return f"{OURS} {hashlib.sha256(canonical).hexdigest()[:16]}"


def copy_of_edits(stored: Stored) -> Json:
    """Return a user's version of a dashboard under a name and uid of its own."""
    kept = {
        name: value for name, value in stored.dashboard.items() if name not in ("id", "version")
    }
    tags = [tag for tag in stored.dashboard.get("tags", ()) if tag != TAG]
    return kept | {
        "uid": f"{kept['uid']}-edited-{stored.version}",
        "title": f"{kept['title']} (edited, version {stored.version})",
        "tags": [*tags, EDITED_TAG],
    }


def _push_folder(grafana: Grafana) -> Step:
    if grafana.folder(FOLDER) is not None:
        return Step(f"folder {FOLDER}", Move.NOTHING)
    grafana.create_folder(FOLDER, FOLDER)
    return Step(f"folder {FOLDER}", Move.CREATE)


def _push_data_source(grafana: Grafana, wish: Wish) -> Step:
    if wish.source_uid:  # which an account that only edits dashboards can't even look at
        return Step(f"data source {wish.source_uid}", Move.NOTHING)
    what, stored = f"data source {SOURCE_UID}", grafana.data_source(SOURCE_UID)
    if stored is None:
        grafana.create_data_source(data_source(wish.prometheus_url or PROMETHEUS_URL))
        return Step(what, Move.CREATE)
    if wish.prometheus_url in (None, stored["url"]):
        return Step(what, Move.NOTHING)
    grafana.update_data_source(stored | {"url": wish.prometheus_url})
    return Step(what, Move.UPDATE)


def _push_dashboard(grafana: Grafana, dashboard: Json, *, overwrite: bool) -> Iterator[Step]:
    what, message = f"dashboard {dashboard['title']}", message_for(dashboard)
    stored = grafana.dashboard(str(dashboard["uid"]))
    if stored and stored.provisioned:
        raise _provisioned(what)
    move = decide(stored, message, overwrite=overwrite)
    if stored and move is Move.KEEP_EDITS:
        yield from _keep_edits(grafana, stored)
    if move is not Move.NOTHING:
        # Naming the version that was looked at makes Grafana refuse if somebody saves meanwhile.
        version = {"version": stored.version} if stored else {}
        grafana.save_dashboard(dashboard | version, FOLDER, message)
    yield Step(what, move)


def _keep_edits(grafana: Grafana, stored: Stored) -> Iterator[Step]:
    copy = copy_of_edits(stored)
    if grafana.dashboard(str(copy["uid"])) is None:
        grafana.save_dashboard(copy, FOLDER, f"kept by {OURS}")
        yield Step(f"dashboard {copy['title']}", Move.CREATE)


def _push_alerts(grafana: Grafana, group: Json) -> Step:
    stored = grafana.alert_group(FOLDER, GROUP)
    if stored is not None and says(stored, group):
        return Step("alerts", Move.NOTHING)
    grafana.replace_alert_group(FOLDER, GROUP, group)
    return Step("alerts", Move.CREATE if stored is None else Move.UPDATE)


def says(stored: object, ours: object) -> bool:
    """Return whether what is stored says all that we do; Grafana adds fields of its own."""
    if isinstance(ours, Mapping) and isinstance(stored, Mapping):
        return all(key in stored and says(stored[key], value) for key, value in ours.items())
    if isinstance(ours, Sequence) and isinstance(stored, Sequence) and not isinstance(ours, str):
        pairs = zip(stored, ours, strict=False)
        return len(stored) == len(ours) and all(says(theirs, own) for theirs, own in pairs)
    return stored == ours


def _provisioned(what: str) -> UserError:
    return GrafanaRefused(
        f"push {what}",
        "this Grafana reads it from files (provisioning)",
        "Remove the files, or change them with `benchfarm dashboards build`.",
    )
