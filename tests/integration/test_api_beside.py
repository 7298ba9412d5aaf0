"""The API beside a farm: started once, as wanted, and ended with the farm."""

from __future__ import annotations

import ssl
from pathlib import Path

import httpx
import pytest

from controller.contracts.errors import UserError
from controller.metrics.exporter import LOOPBACK
from controller.metrics.web_server import listen
from controller.runtime.api_beside import ApiBeside, ApiUnavailable, end_api, have_api, running_api
from controller.runtime.health import is_listening
from controller.runtime.home import Home
from tests.support.api import prepared
from tests.support.waiting import PATIENCE_S

pytestmark = pytest.mark.integration


def free_port() -> int:
    with listen(LOOPBACK) as listener:
        return int(listener.getsockname()[1])


def test_the_api_is_served_beside_a_farm_until_it_is_ended(tmp_path: Path) -> None:
    home = prepared(tmp_path / "home", sweeps=1)
    home.prepare()
    wanted = ApiBeside(LOOPBACK, free_port())
    started = []
    try:
        started.append(have_api(home, wanted))
        first = running_api(home)
        assert first is not None
        assert first.url == f"https://{LOOPBACK}:{wanted.port}/"
        certificate = wanted.certificate_in(home)
        trust = ssl.create_default_context(cafile=str(certificate))
        with httpx.Client(verify=trust, timeout=PATIENCE_S, trust_env=False) as client:
            led = client.get(first.url)
            assert (led.status_code, led.headers["Location"]) == (303, "/sign-in?to=%2F")
            assert client.get(f"{first.url}api/v1/sweeps").status_code == 401
        assert have_api(home, wanted) is None, "it is found running"
        assert running_api(home) == first
        started.append(have_api(home, ApiBeside(LOOPBACK, wanted.port, plain=True)))
        second = running_api(home)
        assert second is not None
        assert second.process != first.process, "another one, as wanted"
        with httpx.Client(timeout=PATIENCE_S, trust_env=False) as client:
            assert client.get(f"http://{wanted.address}/").status_code == 303
    finally:
        ended = end_api(home)
        for process in filter(None, started):
            process.wait(PATIENCE_S)
    assert ended > 0
    assert running_api(home) is None
    assert not is_listening(wanted.address)


def test_an_address_that_is_taken_is_named(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.prepare()
    with listen(LOOPBACK) as taken:
        port = int(taken.getsockname()[1])
        with pytest.raises(UserError, match=f"--api {LOOPBACK}:{port}: Address already in use"):
            have_api(home, ApiBeside(LOOPBACK, port))
    assert running_api(home) is None


def test_what_the_api_says_last_is_told_if_it_does_not_start(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.prepare()  # without a store
    with pytest.raises(ApiUnavailable, match=r"serve the API on 127\.0\.0\.1:\d+: .*nothing"):
        have_api(home, ApiBeside(LOOPBACK, free_port(), plain=True))
    assert running_api(home) is None
