"""`benchfarm dashboards`: what it prints, how it exits, and what it never prints."""

from __future__ import annotations

import json
import sys
import webbrowser
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from controller.cli.main import main
from controller.dashboards.files import Place, provisioning_files
from tests.support.grafana_stub import ADMIN, USER, GrafanaStub, running


@dataclass(frozen=True)
class Said:
    status: int | str | None
    out: str
    err: str


Benchfarm = Callable[..., Said]


@pytest.fixture
def benchfarm(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Benchfarm:
    """Run the command line in this process."""
    for name in ("GRAFANA_TOKEN", "GRAFANA_PASSWORD", "GRAFANA_URL"):
        monkeypatch.delenv(name, raising=False)

    def run(*arguments: str) -> Said:
        monkeypatch.setattr(sys, "argv", ["benchfarm", "dashboards", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        captured = capsys.readouterr()
        return Said(ended.value.code, captured.out, captured.err)

    return run


@pytest.fixture
def stub() -> Iterator[GrafanaStub]:
    with running(GrafanaStub()) as stub:
        yield stub


def test_build_writes_what_grafana_reads(benchfarm: Benchfarm, tmp_path: Path) -> None:
    where = ("--prometheus", "http://prom:9090", "--path", "/boards")
    said = benchfarm("build", "-o", str(tmp_path / "out"), *where)
    assert said.status == 0
    written = dict(provisioning_files(Place("http://prom:9090", "/boards")))
    assert said.out.split() == [str(tmp_path / "out" / name) for name in written]
    for name, text in written.items():
        assert (tmp_path / "out" / name).read_text() == text
    assert any("http://prom:9090" in text for text in written.values())
    assert any("/boards" in text for text in written.values())


def test_build_into_a_file_is_one_clear_line(benchfarm: Benchfarm, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    said = benchfarm("build", "-o", str(tmp_path / "file"))
    assert said.status == 2
    assert said.err.startswith("benchfarm: cannot create folder ")
    assert said.err.count("\n") == 1


def test_check_of_what_is_built(benchfarm: Benchfarm) -> None:
    said = benchfarm("check")
    assert (said.status, said.out) == (0, "6 dashboards name only what is exported\n")


def test_check_of_a_dashboard_without_a_query(benchfarm: Benchfarm, tmp_path: Path) -> None:
    empty = tmp_path / "mine.json"
    empty.write_text('{"title": "Mine", "panels": []}')
    said = benchfarm("check", str(empty), "--prometheus", "http://127.0.0.1:1")
    assert (said.status, said.err) == (0, "")
    assert said.out == "1 dashboards name only what is exported\n0 queries run\n"


def test_check_finds_what_is_planted_in_a_file(benchfarm: Benchfarm, tmp_path: Path) -> None:
    text = dict(provisioning_files(Place()))["dashboards/fleet.json"]
    wrong = tmp_path / "mine.json"
    wrong.write_text(text.replace("max (benchfarm_runs_queued)", "max (benchfarm_runs_waiting)"))
    said = benchfarm("check", str(wrong))
    assert said.status == 1
    assert said.err == (
        "Fleet overview / Runs queued / A: there is no metric benchfarm_runs_waiting\n"
    )


def test_check_reads_what_grafana_exports(benchfarm: Benchfarm, tmp_path: Path) -> None:
    text = dict(provisioning_files(Place()))["dashboards/device.json"]
    exported = tmp_path / "exported.json"
    exported.write_text(json.dumps({"dashboard": json.loads(text), "meta": {}}))
    assert benchfarm("check", str(exported)).status == 0


@pytest.mark.parametrize(
    ("content", "seen"),
    [
        (None, "No such file or directory"),
        ("no json", "it is not JSON"),
        ("[]", "it has no title or no panels"),
        ('{"title": "x"}', "it has no title or no panels"),
    ],
)
def test_check_of_a_bad_file_is_one_clear_line(
    benchfarm: Benchfarm, tmp_path: Path, content: str | None, seen: str
) -> None:
    file = tmp_path / "it.json"
    if content is not None:
        file.write_text(content)
    said = benchfarm("check", str(file))
    assert said.status == 2
    assert said.err.startswith(f"benchfarm: cannot read {file}: {seen}")
    assert said.err.count("\n") == 1


def test_push_twice(
    benchfarm: Benchfarm, stub: GrafanaStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRAFANA_TOKEN", f"{ADMIN}\n")
    said = benchfarm("push", "--url", stub.url, "--prometheus", "http://prom:9090")
    assert said.status == 0
    assert "dashboard Compare hardware: created\n" in said.out
    assert said.out.splitlines()[-1] == f"{stub.url}/d/benchfarm-fleet"
    monkeypatch.setenv("GRAFANA_URL", stub.url)
    again = benchfarm("push")
    assert again.status == 0
    assert "created" not in again.out
    assert stub.sources["benchfarm-prometheus"]["url"] == "http://prom:9090"


def test_push_tells_that_edits_are_kept(
    benchfarm: Benchfarm, stub: GrafanaStub, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text(ADMIN)
    token.chmod(0o600)
    push = ("push", "--url", stub.url, "--token-file", str(token), "--no-alerts")
    benchfarm(*push)
    stub.save_as_user("benchfarm-mobile", panels=[])
    said = benchfarm(*push)
    assert "dashboard Mobile suite (edited, version 2): created\n" in said.out
    assert "dashboard Mobile suite: updated; your changes are kept apart\n" in said.out
    assert stub.groups == {}


def test_push_with_a_user(
    benchfarm: Benchfarm, stub: GrafanaStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, password = USER
    missing = benchfarm("push", "--url", stub.url, "--user", name)
    assert missing.status == 2
    assert "there is no password. Set GRAFANA_PASSWORD." in missing.err
    monkeypatch.setenv("GRAFANA_PASSWORD", password)
    assert benchfarm("push", "--url", stub.url, "--user", name).status == 0


@pytest.mark.parametrize(
    ("token", "seen"),
    [
        (None, "cannot sign in to Grafana: there is no token. Set GRAFANA_TOKEN"),
        ("", "it is not one token"),
        ("two tokens", "it is not one token"),
        ("tökén", "it is not one token"),
        ("unknown-token", "Grafana does not accept the token"),
    ],
)
def test_push_without_a_good_token_is_one_clear_line(
    benchfarm: Benchfarm, stub: GrafanaStub, tmp_path: Path, token: str | None, seen: str
) -> None:
    options: tuple[str, ...] = ()
    if token is not None:
        (tmp_path / "token").write_text(token, encoding="utf-8")
        (tmp_path / "token").chmod(0o600)
        options = ("--token-file", str(tmp_path / "token"))
    said = benchfarm("push", "--url", stub.url, *options)
    assert said.status == 2
    assert seen in said.err
    assert said.err.count("\n") == 1
    assert not token or token not in said.out + said.err
    assert stub.writes == []


def test_open_prints_the_address_and_asks_for_a_browser(
    benchfarm: Benchfarm, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    address = "http://grafana.example/x/d/benchfarm-fleet"
    assert benchfarm("open", "--url", "http://grafana.example/x/", "--print").out == f"{address}\n"
    assert opened == []
    assert benchfarm("open", "--url", "http://grafana.example/x").out == f"{address}\n"
    assert opened == [address]


def test_nobody_answers_at_prometheus(benchfarm: Benchfarm) -> None:
    with running(GrafanaStub()) as gone:
        pass
    said = benchfarm("check", "--prometheus", gone.url)
    assert said.status == 2
    assert f"cannot ask Prometheus at {gone.url}" in said.err
    assert said.err.count("\n") == 1
