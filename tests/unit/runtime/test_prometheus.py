"""What becomes of a Prometheus that can't be started or asked."""

from __future__ import annotations

import re
from pathlib import Path

import httpx
import pytest

from controller.metrics.prometheus_config import prometheus_files
from controller.runtime.home import Home
from controller.runtime.prometheus import (
    Prometheus,
    PrometheusUnavailable,
    find_program,
    running_beside,
    start_prometheus,
)
from tests.support.http_peer import Peer, answering
from tests.support.prometheus import (
    EVERY_SECOND,
    fixed_targets,
    running_prometheus,
    with_programs,
)

CONFIG = "prometheus.yml"


def test_one_that_ends_at_once_is_told_with_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", with_programs()["PATH"])
    with pytest.raises(PrometheusUnavailable) as raised:
        start_prometheus(tmp_path, {CONFIG: {"no_such_key": 1}})
    assert raised.value.seen.startswith("it exited with ")
    log = tmp_path / "prometheus.log"
    assert raised.value.remedy == f"See its output in {log}."
    assert "no_such_key" in log.read_text()


def test_one_that_is_not_installed_is_told_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PrometheusUnavailable, match="Install Debian's package `prometheus`"):
        find_program("prometheus")


def test_a_query_it_refuses_and_a_server_that_is_gone(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("secret")
    home = Home(tmp_path / "home")
    home.prometheus.mkdir(parents=True)
    with running_prometheus(tmp_path / "server", fixed_targets("127.0.0.1:1", []), token) as server:
        home.prometheus_url.write_text(server.url)
        assert running_beside(home) == server
        with pytest.raises(PrometheusUnavailable) as raised:
            server.query("up{")
        assert "parse error" in raised.value.seen
        assert_pages(server.url)
    with pytest.raises(PrometheusUnavailable) as raised:
        server.query("up")
    assert raised.value.tried == f"ask Prometheus at {server.url}"
    assert running_beside(home) is None


@pytest.mark.parametrize("answer", [b"[]", b"null", b'"success"', b"1", b"<html>"])
def test_a_server_that_is_no_prometheus(answer: bytes) -> None:
    with answering(Peer(pieces=[answer])) as peer:
        with pytest.raises(PrometheusUnavailable) as raised:
            Prometheus(peer.url).query("up")
        assert raised.value.tried == f"ask Prometheus at {peer.url}"


def assert_pages(url: str) -> None:
    """Check that its own pages are there, with all that the first one loads."""
    graph = httpx.get(url, trust_env=False, follow_redirects=True)
    assert (graph.status_code, "<title>Prometheus" in graph.text) == (200, True)
    parts = re.findall(r'(?:src|href)="(/[^"?]*/static/[^"?]*)', graph.text)
    assert len(parts) > 5
    answers = {part: httpx.get(f"{url}{part}", trust_env=False).status_code for part in parts}
    assert set(answers.values()) == {200}, answers


def test_no_prometheus_was_started(tmp_path: Path) -> None:
    assert running_beside(Home(tmp_path)) is None


def test_every_file_of_the_configuration_is_named_in_it(tmp_path: Path) -> None:
    files = prometheus_files(fixed_targets("127.0.0.1:1", []), tmp_path / "token", EVERY_SECOND)
    assert set(files) == {CONFIG, *files[CONFIG]["rule_files"]}
