"""A farm that is up is what it was started as: other options are refused, the same are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.contracts.errors import UserError
from controller.contracts.quota import Quota
from controller.contracts.retention import Retention
from controller.runtime.addresses import Address
from controller.runtime.cluster import Head
from controller.runtime.home import Cluster
from controller.runtime.lifetime import UpOptions, non_default_options, require_same
from controller.runtime.redis import RedisServer

LISTEN = Head(listen=Address("10.0.0.1", 6379))
OPTIONS = {
    "--label": UpOptions(labels={"rack": "b2"}),
    "--no-agent": UpOptions(with_agent=False),
    "--listen": UpOptions(head=LISTEN, metrics_address="10.0.0.1"),
    "--redis": UpOptions(head=Head(redis=RedisServer(host="h", port=1, password_file=None))),
    "--autoscaling-config": UpOptions(head=Head(autoscaling=Path("/a.yaml"))),
    "--metrics-address": UpOptions(metrics_address="10.0.0.1"),
    "--api-port": UpOptions(api_port=8000),
    "--quarantine-after": UpOptions(quarantine_after=7),
    "--user-runs": UpOptions(quota=Quota(open_runs=7)),
    "--user-bytes": UpOptions(quota=Quota(bytes_a_day=7)),
    "--artifact-days": UpOptions(retention=Retention(days=7)),
    "--artifact-bytes": UpOptions(retention=Retention(most_bytes=7)),
    "--phone-power-cycle": UpOptions(phone_power_cycle=("/bin/uhubctl", "{serial}")),
    "--meter": UpOptions(meter=("/bin/meter", "{device}")),
}


def farm(options: UpOptions) -> Cluster:
    return Cluster(
        instance="abc",
        ray_address="127.0.0.1:1",
        dashboard_url="http://127.0.0.1:2",
        temp_dir="/t",
        options=non_default_options(options),
    )


@pytest.mark.parametrize("option", OPTIONS)
def test_option_that_a_farm_was_not_started_with_is_refused(option: str) -> None:
    with pytest.raises(
        UserError,
        match=rf"cannot use {option} .*: a farm is up here without it\. Run `benchfarm down`",
    ):
        require_same(farm(UpOptions()), OPTIONS[option])


@pytest.mark.parametrize("option", OPTIONS)
def test_same_options_again_are_fine_and_so_are_none(option: str) -> None:
    require_same(farm(OPTIONS[option]), OPTIONS[option])
    require_same(farm(OPTIONS[option]), UpOptions())


def test_other_value_is_named_beside_the_farm_s_own() -> None:
    with pytest.raises(
        UserError, match=r"a farm is up here with --api-port 8000\. Run `benchfarm down` first"
    ):
        require_same(farm(OPTIONS["--api-port"]), UpOptions(api_port=8001))
