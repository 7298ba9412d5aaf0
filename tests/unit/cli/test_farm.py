"""What `benchfarm up` prints."""

from __future__ import annotations

import shlex
from pathlib import Path

from controller.cli.farm import job_environment
from controller.runtime.home import Cluster, Home


def test_a_job_is_led_to_this_farm_whatever_else_runs_here() -> None:
    home = Home(Path("/srv/my farm"))
    cluster = Cluster(
        instance="abc",
        ray_address="127.0.0.1:1",
        dashboard_url="http://127.0.0.1:2",
        temp_dir="/t",
    )
    command, *variables = shlex.split(job_environment(home, cluster))
    assert command == "export"
    assert dict(variable.split("=", 1) for variable in variables) == {
        "RAY_API_SERVER_ADDRESS": "http://127.0.0.1:2",
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": "/srv/my farm/ray-token",
    }
