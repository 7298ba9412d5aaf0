"""What `benchfarm up` prints."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from requests.utils import get_environ_proxies

from controller.cli.farm import job_environment
from controller.runtime.home import Cluster, Home

HOME = Home(Path("/srv/my farm"))
CLUSTER = Cluster(
    instance="abc",
    ray_address="127.0.0.1:1",
    dashboard_url="http://127.0.0.1:2",
    temp_dir="/t",
)
RAYS = {
    "RAY_API_SERVER_ADDRESS": "http://127.0.0.1:2",
    "RAY_AUTH_MODE": "token",
    "RAY_AUTH_TOKEN_PATH": "/srv/my farm/ray-token",
}


def exported(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a shell in which the line was typed."""
    line = job_environment(HOME, CLUSTER)
    assert line.startswith("export ")
    show = "import json, os; print(json.dumps({**os.environ}))"
    script = f"set -u; {line}; exec {sys.executable} -c '{show}'"
    said = subprocess.check_output(["sh", "-c", script], env={"PATH": os.defpath, **environ})
    found: dict[str, str] = json.loads(said)
    return found


def test_a_job_is_led_to_this_farm_whatever_else_runs_here() -> None:
    assert RAYS.items() <= exported({}).items()


@pytest.mark.parametrize(
    ("former", "kept"),
    [
        ({}, []),
        ({"no_proxy": "corp.example,10.0.0.9"}, ["corp.example", "10.0.0.9"]),
        ({"NO_PROXY": "corp.example"}, ["corp.example"]),
        ({"no_proxy": "", "NO_PROXY": "corp.example"}, ["corp.example"]),
        ({"no_proxy": "a.example", "NO_PROXY": "b.example"}, ["a.example"]),
    ],
)
def test_no_proxy_is_sent_the_token(
    monkeypatch: pytest.MonkeyPatch, former: Mapping[str, str], kept: list[str]
) -> None:
    proxies = {"http_proxy": "http://127.0.0.1:9", "HTTP_PROXY": "http://127.0.0.1:9"}
    found = exported({**proxies, **former})
    for name in ("no_proxy", "NO_PROXY"):
        assert [host for host in found[name].split(",") if host] == [*kept, "127.0.0.1"]
        monkeypatch.setenv(name, found[name])
    for name, proxy in proxies.items():
        monkeypatch.setenv(name, proxy)
    # As Ray's client of jobs asks.
    assert get_environ_proxies("http://127.0.0.1:2/api/jobs/") == {}
    assert get_environ_proxies("http://elsewhere.example/")["http"] == "http://127.0.0.1:9"
