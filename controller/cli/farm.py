"""`benchfarm up` and `benchfarm down`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import typer

from controller.cli.common import (
    Labels,
    MeterCommand,
    MetricsAddress,
    PhonePowerCycle,
    home,
    parse_command,
    parse_labels,
    unwound,
)
from controller.contracts.errors import UserError
from controller.contracts.quota import Quota
from controller.contracts.retention import Retention
from controller.metrics.exporter import LOOPBACK
from controller.platform.terminal import say
from controller.runtime.addresses import Address
from controller.runtime.api_beside import ApiBeside, renewed_line
from controller.runtime.cluster import Head
from controller.runtime.disks import require_room
from controller.runtime.health import why_away
from controller.runtime.home import Cluster, Home
from controller.runtime.lifetime import (
    FarmUp,
    UpOptions,
    be_supervisor,
    bring_down,
    bring_up,
    wanted,
)
from controller.runtime.options import QUARANTINE_AFTER
from controller.runtime.prometheus import find_program, running_beside
from controller.runtime.redis import RedisServer
from controller.store.artefacts.places import address_in, keep_address

AWAY_S = 600
"""Suggested to the hosts of a farm with Redis: for so long they measure on without the head."""


def up(
    label: Labels = None,
    agent: Annotated[
        bool, typer.Option("--agent/--no-agent", help="Start an agent on this host.")
    ] = True,
    listen: Annotated[
        str | None,
        typer.Option(
            metavar="IP[:PORT]",
            help="This host's address for other hosts to join at. [default port: 6379]",
        ),
    ] = None,
    redis: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="Redis for Ray's state; other hosts keep measuring while the head is lost.",
        ),
    ] = None,
    redis_password_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Password file for --redis; required with it."),
    ] = None,
    metrics_address: MetricsAddress = None,
    api_port: Annotated[
        int,
        typer.Option(
            min=0, max=65535, help="Port of the controller on loopback; 0 chooses a free one."
        ),
    ] = 0,
    api: Annotated[
        str | None,
        typer.Option(
            metavar="IP:PORT",
            help="Serve the API and the page for the team here, over TLS; IPv6 in brackets.",
        ),
    ] = None,
    api_tls_cert: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="PEM certificate. [default: made at first use]"),
    ] = None,
    api_tls_key: Annotated[
        Path | None, typer.Option(metavar="FILE", help="PEM key of --api-tls-cert.")
    ] = None,
    api_plain: Annotated[
        bool, typer.Option("--api-plain", help="Serve the API without TLS; only on loopback.")
    ] = False,
    prometheus: Annotated[
        bool, typer.Option("--prometheus", help="Start Prometheus, too, with rules and alerts.")
    ] = False,
    quarantine_after: Annotated[
        int,
        typer.Option(min=1, help="Consecutive failures of a device before its quarantine."),
    ] = QUARANTINE_AFTER,
    user_runs: Annotated[
        int, typer.Option(min=1, help="Open runs that each user may have; no limit for admin.")
    ] = Quota().open_runs,
    user_bytes: Annotated[
        int, typer.Option(min=1, help="Bytes that a user's sweeps may add to the store per day.")
    ] = Quota().bytes_a_day,
    artifacts: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Keep artifacts there, at any address of fsspec: s3://, file://.",
        ),
    ] = None,
    artifact_days: Annotated[
        int, typer.Option(min=1, help="Days that artifacts stay on the head; pinned sweeps' stay.")
    ] = Retention().days,
    artifact_bytes: Annotated[
        int, typer.Option(min=1, help="Bytes that artifacts may have on the head's disk.")
    ] = Retention().most_bytes,
    autoscaling_config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Cluster config from `ray up`; Ray's autoscaler manages workers."
        ),
    ] = None,
    phone_power_cycle: PhonePowerCycle = None,
    meter: MeterCommand = None,
    block: Annotated[
        bool, typer.Option("--block", help="Stay in the foreground; SIGTERM ends the farm.")
    ] = False,
) -> None:
    """Start Ray, the controller and this host's agent.

    A supervisor restarts the farm when a part of it ends, until `benchfarm down`. Until then, a
    call without options also brings back a farm that was lost, with the options it was given.
    """
    if prometheus:
        find_program("prometheus")  # rather a complaint now than half a farm

    beside = api_beside(api, api_tls_cert, api_tls_key, plain=api_plain)
    if artifacts:
        keep_artefacts_at(home(), artifacts)
    head = head_of(listen, autoscaling_config, redis, redis_password_file)
    options = UpOptions(
        labels=parse_labels(label),
        with_agent=agent,
        metrics_address=metrics_address or (head.listen.host if head.listen else LOOPBACK),
        api_port=api_port,
        head=head,
        quarantine_after=quarantine_after,
        quota=Quota(user_runs, user_bytes),
        retention=Retention(artifact_days, artifact_bytes),
        phone_power_cycle=parse_command("--phone-power-cycle", phone_power_cycle),
        meter=parse_command("--meter", meter),
        prometheus=prometheus,
        api=beside,
        supervised=True,
        block=block,
    )
    if why_away(home()):  # else it is only found
        require_room(home().path)
    stored = wanted(home())
    served = beside or (stored and stored.api)
    before = _fingerprint(served) if served else ""
    with unwound():
        farm = bring_up(home(), options)
    now = wanted(home()) or options  # of a farm that was there before, those that it was given
    _tell(farm, now.head)
    if now.api:
        _tell_api(now.api, before)
    if server := running_beside(home()) if now.prometheus else None:
        say(f"metrics  {server.url}, data {home().prometheus}")
    say(f"ray job submit needs:  {job_environment(home(), farm.cluster)}")
    if block:
        be_supervisor(home())


def _tell(farm: FarmUp, head: Head) -> None:
    say(f"farm     {'up' if farm.started else 'was up already'}, home {home().path}")
    say(f"ray      {farm.cluster.ray_address}, jobs and dashboard {farm.cluster.dashboard_url}")
    say(f"api      {farm.url}")
    say(f"logs     {home().logs}, {farm.cluster.temp_dir}/session_latest/logs")
    if farm.agent:
        say(f"agent    {farm.agent.id}")
    if farm.agent and farm.agent.revoked:
        say(f"revoked  {farm.agent.revoked}")
    if head.listen:
        # Hosts that join are to wait for a head that is lost.
        how = f" --reconnect-timeout {AWAY_S}" if head.redis else ""
        say(
            f"join     benchfarm agent start --head {head.listen} --token-file FILE{how},"
            f" where FILE is a copy of {home().ray_token}"
        )


def _tell_api(served: ApiBeside, before: str) -> None:
    """before: the fingerprint of the certificate that was there; empty without one."""
    say(f"page     {served.url}, the API below {served.url}api/v1")
    fingerprint = _fingerprint(served)
    if fingerprint:
        certificate = served.certificate_in(home())
        say(f"         certificate {certificate}, SHA-256 {fingerprint}")
    if before and not served.certificate and fingerprint not in ("", before):
        say(renewed_line(before))


def _fingerprint(served: ApiBeside) -> str:
    """Return the fingerprint of the API's certificate; empty if there is none yet, or no TLS."""
    # Late: cryptography takes longer to load than all else of `up`.
    from controller.api.certificate import fingerprint_of

    certificate = served.certificate_in(home())
    return fingerprint_of(certificate) if certificate and certificate.exists() else ""


def api_beside(
    address: str | None, certificate: Path | None, key: Path | None, *, plain: bool
) -> ApiBeside | None:
    """Return how the API is to be served beside the farm, None if it is not; raises UserError."""
    if address is None:
        if certificate or key or plain:
            seen = "--api-tls-cert, --api-tls-key and --api-plain need --api"
            raise UserError("start the farm", seen, "Add `--api IP:PORT`.")
        return None
    # Late, as above.
    from controller.cli.api import require_servable

    parsed = Address.to_listen("--api", address)
    require_servable(parsed, certificate, key, plain=plain, prefix="--api-")
    files = (str(file.absolute()) if file else "" for file in (certificate, key))
    return ApiBeside(parsed.host, parsed.port, plain, *files)


def keep_artefacts_at(farm: Home, address: str) -> None:
    """Have a farm keep its artefacts at an address; raises UserError if it can't."""
    tried = f"keep artifacts at {address!r}"
    if address.startswith("memory:"):
        seen = "it is in the memory of one process, and others read them, too"
        raise UserError(tried, seen, "Give the address of a folder or a bucket.")
    if address_in(farm.artefacts) != address and not why_away(farm):
        raise UserError(tried, "the farm is up", "Run `benchfarm down` first.")
    farm.path.mkdir(mode=0o700, parents=True, exist_ok=True)
    keep_address(farm.artefacts, address)


def job_environment(home: Home, cluster: Cluster) -> str:
    """Return the shell command that leads `ray job submit` to this farm, whatever Ray runs here.

    Also past any proxy, which would be sent Ray's token.
    """
    variables = {
        "RAY_API_SERVER_ADDRESS": cluster.dashboard_url,  # comes before RAY_ADDRESS
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(home.ray_token),
    }
    named = [f"{k}={shlex.quote(v)}" for k, v in variables.items()]
    # The shell's own list is kept. Programs read it in lower case first, if it is there.
    kept = f'"${{no_proxy:-${{NO_PROXY-}}}},{urlsplit(cluster.dashboard_url).hostname}"'
    return " ".join(["export", *named, *(f"{name}={kept}" for name in ("NO_PROXY", "no_proxy"))])


def head_of(
    listen: str | None, autoscaling: Path | None, redis: str | None, password_file: Path | None
) -> Head:
    """Return how the head is to be started; raises UserError."""
    if redis and not listen:
        raise UserError("start the farm", "--redis needs --listen", "Add `--listen IP`.")
    if password_file and not redis:
        remedy = "Add `--redis HOST:PORT`."
        raise UserError("start the farm", "--redis-password-file needs --redis", remedy)
    return Head(
        listen=Address.parse("--listen", listen) if listen else None,
        autoscaling=autoscaling,
        redis=RedisServer.parse(redis, password_file) if redis else None,
    )


def down() -> None:
    """Stop this home's farm; unfinished runs stay queued.

    They continue at the next `benchfarm up`.
    """
    ended = bring_down(home())
    if ended is None:
        say(f"no farm is up in {home().path}")
    else:
        say(f"farm down, {ended} processes ended")
