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
from controller.platform.terminal import say
from controller.runtime.addresses import web_address
from controller.runtime.prometheus import Prometheus as Server

app = typer.Typer(help="Grafana dashboards of the fleet.", no_args_is_help=True)

MAX_DASHBOARD_BYTES = 2**24

Url = Annotated[
    str,
    typer.Option("--url", envvar="GRAFANA_URL", help="Grafana's address, as a browser shows it."),
]
Prometheus = Annotated[
    str | None, typer.Option("--prometheus", help="Prometheus's address, as Grafana reaches it.")
]


@app.command()
def build(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the files.")],
    prometheus: Prometheus = None,
    path: Annotated[
        str | None, typer.Option(help="Where `dashboards` will lie on Grafana's host.")
    ] = None,
) -> None:
    """Write dashboards and provisioning files, for those who don't push."""
    server = web_address(f"option --prometheus {prometheus!r}", prometheus or PROMETHEUS_URL)
    place = Place(server, path or DASHBOARDS_PATH)
    if not Path(place.dashboards_path).is_absolute():
        remedy = f"write an absolute one, such as {DASHBOARDS_PATH}"
        raise UserError(f"option --path {path!r}", "it is a relative path", remedy)
    for name, text in provisioning_files(place):
        make_folder((output / name).parent)
        write_file(output / name, text)
        say(output / name)


@app.command()
def check(
    files: Annotated[
        list[Path] | None,
        typer.Argument(help="Dashboards as JSON files, such as your own; the built ones if none."),
    ] = None,
    prometheus: Annotated[
        str | None, typer.Option(help="Also ask this Prometheus every question.")
    ] = None,
) -> None:
    """Check that every query names what is exported; exit 1 if one doesn't, or can't be asked.

    With --prometheus every query of every panel, variable and annotation is asked; those without
    data are listed, which is no error: a fleet without phones has no batteries.
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
        typer.Option(help="File that holds a service account token; or GRAFANA_TOKEN."),
    ] = None,
    user: Annotated[
        str | None,
        typer.Option(help="Instead of a token; the password is taken from GRAFANA_PASSWORD."),
    ] = None,
    prometheus: Prometheus = None,
    data_source: Annotated[
        str | None, typer.Option(help="Uid of a data source to use instead of one of ours.")
    ] = None,
    alerts: Annotated[
        bool, typer.Option("--alerts/--no-alerts", help="Have Grafana evaluate the alerts.")
    ] = True,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Don't keep your changes apart as copies.")
    ] = False,
) -> None:
    """Bring folder, data source, dashboards and alerts to a Grafana server; twice changes nothing.

    A dashboard that was changed there is saved as a copy first, named `… (edited, version N)`.
    """
    wish = Wish(prometheus, data_source, alerts, overwrite)
    with connected(url, _credential(token_file, user)) as grafana:
        for step in push_all(grafana, wish):
            say(f"{step.what}: {step.done}")
        say(grafana.address.dashboard(FLEET))


@app.command("open")
def open_dashboards(
    url: Url,
    show: Annotated[
        bool, typer.Option("--print", help="Only print the address; don't start a browser.")
    ] = False,
) -> None:
    """Print the address of the fleet's overview, and open it in a browser."""
    address = Address.of(url).dashboard(FLEET)
    say(address)
    if not show:
        webbrowser.open(address)


def _read(file: Path) -> Json:
    """Return a dashboard from a file; raises UserError."""
    tried, remedy = f"reading {file}", "give a dashboard as Grafana exports it"
    try:
        read = load_json(read_limited(file, MAX_DASHBOARD_BYTES), MAX_DASHBOARD_BYTES)
    except OSError as error:
        raise UserError(tried, error.strerror or str(error), remedy) from error
    except DocumentRefused as error:
        raise UserError(tried, str(error), remedy) from error
    dashboard = read.get("dashboard", read) if isinstance(read, dict) else {}
    if not {"title", "panels"} <= dashboard.keys():
        raise UserError(tried, "it has no title and panels", remedy)
    return {"annotations": {"list": []}, "templating": {"list": []}, **dashboard}


def _ask(dashboards: Sequence[Json], url: str) -> None:
    probe = Probe(Server(url.rstrip("/")))
    answers = [answer for dashboard in dashboards for answer in probe.dashboard(dashboard)]
    slowest = max(answers, key=lambda answer: answer.seconds)
    for answer in answers:
        if not answer.series:
            say(f"no data: {answer.question.place}")
    empty = sum(not answer.series for answer in answers)
    say(
        f"{len(answers)} queries asked, {empty} without data; the slowest took "
        f"{slowest.seconds:.2f} s: {slowest.question.place}"
    )


def _credential(token_file: Path | None, user: str | None) -> Credential:
    """Return what a push signs in with; no value of it is ever printed. Raises UserError."""
    if user:
        if password := os.environ.get("GRAFANA_PASSWORD"):
            return user, password
        raise UserError(f"signing in as {user}", "there is no password", "set GRAFANA_PASSWORD")
    if token_file:
        return _token(token_file)
    if token := os.environ.get("GRAFANA_TOKEN", "").strip():
        return token
    remedy = "set GRAFANA_TOKEN, or give --token-file FILE, or --user NAME"
    raise UserError("signing in to Grafana", "there is no token", remedy)


def _token(file: Path) -> str:
    remedy = "write a service account token of Grafana into it"
    try:
        token = file.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        seen = error.strerror if isinstance(error, OSError) else "it is no text"
        raise UserError(f"reading --token-file {file}", str(seen), remedy) from error
    if not token or not token.isascii() or any(it.isspace() for it in token):
        raise UserError(f"reading --token-file {file}", "it is not one token", remedy)
    return token
