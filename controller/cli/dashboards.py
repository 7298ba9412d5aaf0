"""`benchfarm dashboards …`"""

from __future__ import annotations

import os
import sys
import webbrowser
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from controller.cli.common import make_folder, write_file
from controller.contracts.documents import DocumentRefused, load_json, read_limited
from controller.contracts.errors import UserError
from controller.dashboards.board import Json
from controller.dashboards.files import (
    DASHBOARDS_PATH,
    PROMETHEUS_URL,
    Place,
    built_dashboards,
    provisioning_files,
)
from controller.dashboards.grafana import Address, Credential, connected
from controller.dashboards.links import FLEET
from controller.dashboards.lint import findings_in, findings_in_alerts
from controller.dashboards.probing import Probe
from controller.dashboards.push import Wish
from controller.dashboards.push import push as push_all
from controller.platform.private_files import read_private
from controller.platform.terminal import say
from controller.runtime.addresses import web_address
from controller.runtime.prometheus import Prometheus as Server

app = typer.Typer(no_args_is_help=True)

MAX_DASHBOARD_BYTES = 2**24

Url = Annotated[
    str,
    typer.Option("--url", envvar="GRAFANA_URL", help="Grafana's address, as in a browser."),
]
Prometheus = Annotated[
    str | None, typer.Option("--prometheus", help="Prometheus's address, as Grafana reaches it.")
]


@app.command()
def build(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder to write the files to.")],
    prometheus: Prometheus = None,
    path: Annotated[
        str | None, typer.Option(help="Path of the folder `dashboards` on Grafana's host.")
    ] = None,
) -> None:
    """Write dashboards and provisioning files.

    To send them to a Grafana server instead, use `benchfarm dashboards push`.
    """
    server = web_address(f"use --prometheus {prometheus!r}", prometheus or PROMETHEUS_URL)
    place = Place(server, path or DASHBOARDS_PATH)
    if not Path(place.dashboards_path).is_absolute():
        remedy = f"Write an absolute path, such as `{DASHBOARDS_PATH}`."
        raise UserError(f"use --path {path!r}", "it is a relative path", remedy)
    for name, text in provisioning_files(place):
        make_folder((output / name).parent)
        write_file(output / name, text)
        say(output / name)


@app.command()
def check(
    files: Annotated[
        list[Path] | None,
        typer.Argument(help="Dashboards as JSON files. [default: the built-in ones]"),
    ] = None,
    prometheus: Annotated[
        str | None, typer.Option(help="Prometheus to run every query on, too.")
    ] = None,
) -> None:
    """Check that queries use only exported metrics and labels.

    With --prometheus, also runs every query of every panel, variable and annotation, and lists
    those without data. No data is not an error: a fleet without phones has no batteries. Exit
    status 1 if a query is wrong or fails.
    """
    dashboards = [_read(file) for file in files] if files else built_dashboards()
    findings = [finding for dashboard in dashboards for finding in findings_in(dashboard)]
    findings += [] if files else findings_in_alerts()
    for finding in findings:
        say(finding, err=True)
    if findings:
        sys.exit(1)
    say(f"{len(dashboards)} dashboards name only what is exported")
    if prometheus:
        _ask(dashboards, prometheus)


@app.command()
def push(
    url: Url,
    token_file: Annotated[
        Path | None,
        typer.Option(help="File with a service account token. [default: GRAFANA_TOKEN]"),
    ] = None,
    user: Annotated[
        str | None,
        typer.Option(help="User name instead of a token; its password is GRAFANA_PASSWORD."),
    ] = None,
    prometheus: Prometheus = None,
    data_source: Annotated[
        str | None, typer.Option(help="Uid of an existing data source. [default: create one]")
    ] = None,
    alerts: Annotated[
        bool, typer.Option("--alerts/--no-alerts", help="Push alert rules, too.")
    ] = True,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace edited dashboards without saving a copy.")
    ] = False,
) -> None:
    """Push dashboards and alerts to a Grafana server.

    Also creates the folder and the data source. Pushing again changes nothing. A dashboard that
    was edited in Grafana is first saved as a copy named `… (edited, version N)`.
    """
    wish = Wish(prometheus, data_source, alerts, overwrite)
    with connected(url, _credential(token_file, user)) as grafana:
        for step in push_all(grafana, wish):
            say(f"{step.what}: {step.done}")
        say(grafana.address.dashboard(FLEET))


@app.command("open")
def open_dashboards(
    url: Url,
    show: Annotated[bool, typer.Option("--print", help="Only print the address.")] = False,
) -> None:
    """Open the fleet overview in a browser.

    Prints its address first.
    """
    address = Address.of(url).dashboard(FLEET)
    say(address)
    if not show:
        webbrowser.open(address)


def _read(file: Path) -> Json:
    """Return a dashboard from a file; raises UserError."""
    tried, remedy = f"read {file}", "Give a dashboard that was exported by Grafana."
    try:
        read = load_json(read_limited(file, MAX_DASHBOARD_BYTES), MAX_DASHBOARD_BYTES)
    except OSError as error:
        raise UserError(tried, error.strerror or str(error), remedy) from error
    except DocumentRefused as error:
        raise UserError(tried, str(error), remedy) from error
    dashboard = read.get("dashboard", read) if isinstance(read, dict) else {}
    if not {"title", "panels"} <= dashboard.keys():
        raise UserError(tried, "it has no title or no panels", remedy)
    return {"annotations": {"list": []}, "templating": {"list": []}, **dashboard}


def _ask(dashboards: Sequence[Json], url: str) -> None:
    probe = Probe(Server(url.rstrip("/")))
    answers = [answer for dashboard in dashboards for answer in probe.dashboard(dashboard)]
    if not answers:
        say("0 queries run")
        return
    slowest = max(answers, key=lambda answer: answer.seconds)
    for answer in answers:
        if not answer.series:
            say(f"no data: {answer.question.place}")
    empty = sum(not answer.series for answer in answers)
    say(
        f"{len(answers)} queries run, {empty} without data; the slowest took "
        f"{slowest.seconds:.2f} s: {slowest.question.place}"
    )


def _credential(token_file: Path | None, user: str | None) -> Credential:
    """Return what a push signs in with; no value of it is ever printed. Raises UserError."""
    if user:
        if password := os.environ.get("GRAFANA_PASSWORD"):
            return user, password
        seen = "there is no password"
        raise UserError(f"sign in as {user}", seen, "Set GRAFANA_PASSWORD.")
    if token_file:
        return _token(token_file)
    if token := os.environ.get("GRAFANA_TOKEN", "").strip():
        return token
    remedy = "Set GRAFANA_TOKEN, or give `--token-file FILE` or `--user NAME`."
    raise UserError("sign in to Grafana", "there is no token", remedy)


def _token(file: Path) -> str:
    tried = f"read --token-file {file}"
    remedy = "Write a service account token of Grafana into a file that only you can read."
    token = read_private(file, tried, remedy)
    if not token or not token.isascii() or any(it.isspace() for it in token):
        raise UserError(tried, "it is not one token", remedy)
    return token
