"""Pushing dashboards and alerts to a Grafana server without overwriting users' changes.

Every version that we save has a message with the fingerprint of its content. If the newest version
has another message, a user has saved it since. The JSON itself can't show that, because Grafana may
migrate a dashboard's JSON when it is read.
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
"""Start of the message of every version that we save."""
EDITED_TAG = "benchfarm-edited"


class Move(StrEnum):
    """The action for one dashboard."""

    CREATE = "created"
    UPDATE = "updated"
    NOTHING = "unchanged"
    KEEP_EDITS = "updated; your changes are kept apart"


@dataclass(frozen=True, slots=True)
class Wish:
    """The user's options."""

    prometheus_url: str | None = None
    """URL at which Grafana reaches Prometheus; None: keep the existing data source."""
    source_uid: str | None = None
    """Uid of an existing data source to use in place of ours."""
    alerts: bool = True
    overwrite: bool = False
    """Overwrite users' changes; Grafana's version history keeps them."""


@dataclass(frozen=True, slots=True)
class Step:
    """An action, or the finding that none was needed."""

    what: str
    done: str

    @property
    def changed(self) -> bool:
        """Whether the action changed the server."""
        return self.done != Move.NOTHING


def push(grafana: Grafana, wish: Wish) -> Iterator[Step]:
    """Push everything, step by step; pushing again changes nothing.

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
    """Return the action for a dashboard; message: the message it would be saved with."""
    if stored is None:
        return Move.CREATE
    if stored.message == message:
        return Move.NOTHING
    if overwrite or stored.message.startswith(OURS):
        return Move.UPDATE
    return Move.KEEP_EDITS


def message_for(dashboard: Mapping[str, Any]) -> str:
    """Return the message to save a dashboard with."""
    canonical = json.dumps(dashboard, sort_keys=True).encode()
    return f"{OURS} {hashlib.sha256(canonical).hexdigest()[:16]}"


def copy_of_edits(stored: Stored) -> Json:
    """Return a user's version of a dashboard under a new name and uid."""
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
    if wish.source_uid:  # accounts that only edit dashboards can't read it
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
        # With the version in the request, Grafana refuses if somebody else saves meanwhile.
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
    """Return whether a stored value contains all of ours; Grafana adds fields of its own."""
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
