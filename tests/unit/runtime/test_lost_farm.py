"""What `up` does where a farm was lost rather than ended: it comes back as it was."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from controller.contracts.errors import UserError
from controller.platform.atomic import write_private
from controller.runtime import lifetime
from controller.runtime.addresses import Address
from controller.runtime.api_beside import ApiBeside
from controller.runtime.cluster import Head
from controller.runtime.home import ApiProcess, Cluster, Home, Process
from controller.runtime.lifetime import (
    FarmUp,
    UpOptions,
    bring_up,
    non_default_options,
    wanted,
)
from controller.runtime.redis import RedisServer
from controller.runtime.up_command import anew, up_command

API = ApiBeside("10.0.0.1", 8443)
PLAIN = UpOptions(supervised=True)
FLEET = UpOptions(
    labels={"rack": "b2", "room": "left wing"},
    with_agent=False,
    metrics_address="10.0.0.1",
    head=Head(
        listen=Address("10.0.0.1", 6379), redis=RedisServer(host="h", port=1, password_file="/r")
    ),
    meter=("/bin/meter", "{device}"),
    prometheus=True,
    api=API,
    supervised=True,
)
PROCESS = Process(pid=1, started=1, name="x")


def cluster_of(options: UpOptions) -> Cluster:
    return Cluster(
        instance="abc",
        ray_address="10.0.0.1:6379",
        dashboard_url="http://127.0.0.1:2",
        temp_dir="/t",
        options=non_default_options(options),
    )


class Farm:
    """A home whose farm is up or lost; what `up` starts there is noted, and not started."""

    def __init__(self, home: Home, patch: pytest.MonkeyPatch) -> None:
        self.home = home
        self.is_up = False
        self.started: list[UpOptions] = []
        self.beside: list[object] = []
        patch.setattr(lifetime, "_is_up", lambda *_: self.is_up)
        patch.setattr(lifetime, "_start_in_place_of", self._start)
        patch.setattr(lifetime, "is_supervised", lambda _: True)
        patch.setattr(lifetime, "_have_prometheus", lambda *_: self.beside.append("Prometheus"))
        patch.setattr(lifetime, "have_api", lambda _, api: self.beside.append(api))

    def _start(self, former: Cluster | None, home: Home, options: UpOptions) -> FarmUp:
        self.started.append(options)
        write_private(home.cluster_file, cluster_of(options).model_dump_json())
        write_private(home.endpoint_file, '{"url": "http://127.0.0.1:3", "version": "1", "pid": 1}')
        self.is_up = True
        return FarmUp(cluster_of(options), "http://127.0.0.1:3", None, started=True)

    def lose(self) -> None:
        self.is_up = False
        self.started.clear()
        self.beside.clear()


@pytest.fixture
def farm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Farm:
    return Farm(Home(tmp_path), monkeypatch)


@pytest.mark.parametrize(
    "again",
    [
        PLAIN,
        FLEET,
        UpOptions(with_agent=False, supervised=True),
        UpOptions(),  # of `demo`
    ],
)
def test_a_lost_farm_is_started_as_it_was(farm: Farm, again: UpOptions) -> None:
    bring_up(farm.home, FLEET)
    farm.lose()
    bring_up(farm.home, again)
    assert farm.started == [FLEET]
    assert wanted(farm.home) == FLEET
    assert farm.beside == [API, "Prometheus"]


@pytest.mark.parametrize("failing", [("API",), ("Prometheus",), ("API", "Prometheus")])
def test_what_cannot_start_beside_a_farm_keeps_nothing_else_away(
    farm: Farm,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    failing: tuple[str, ...],
) -> None:
    """A Prometheus that could not start kept the API and the page down."""

    def start(name: str) -> None:
        farm.beside.append(name)
        if name in failing:
            raise UserError(f"start {name}", "it is broken", "Mend it.")

    monkeypatch.setattr(lifetime, "have_api", lambda *_: start("API"))
    monkeypatch.setattr(lifetime, "_have_prometheus", lambda *_: start("Prometheus"))
    with pytest.raises(UserError) as raised:
        bring_up(farm.home, FLEET)
    assert farm.beside == ["API", "Prometheus"]
    assert raised.value.tried == f"start {failing[-1]}"
    said = [line for line in capsys.readouterr().err.splitlines() if line]
    assert len(said) == len(failing) - 1, "the other error"
    assert all("start API" in line for line in said)
    assert farm.is_up


def test_other_options_are_refused_and_nothing_is_started(farm: Farm) -> None:
    bring_up(farm.home, FLEET)
    farm.lose()
    other = replace(PLAIN, head=Head(listen=Address("10.0.0.2", 6379)), metrics_address="10.0.0.2")
    with pytest.raises(UserError) as refused:
        bring_up(farm.home, other)
    seen = "the farm of this home was started with --listen 10.0.0.1:6379"
    assert (refused.value.tried, refused.value.seen) == ("use --listen 10.0.0.2:6379", seen)
    assert farm.started == []
    assert wanted(farm.home) == FLEET


def test_after_down_up_begins_anew(farm: Farm) -> None:
    bring_up(farm.home, FLEET)
    farm.lose()
    farm.home.wanted.unlink()  # as `down` does
    bring_up(farm.home, PLAIN)
    assert farm.started == [PLAIN]
    assert wanted(farm.home) == PLAIN


def test_a_second_up_forgets_neither_prometheus_nor_the_api(farm: Farm) -> None:
    first = replace(PLAIN, prometheus=True, api=API)
    bring_up(farm.home, first)
    bring_up(farm.home, PLAIN)
    assert wanted(farm.home) == first
    assert farm.beside == [API, "Prometheus"]  # those that run are the supervisor's matter
    other = ApiBeside("10.0.0.1", 9443)
    bring_up(farm.home, replace(PLAIN, api=other))
    assert wanted(farm.home) == replace(first, api=other)
    assert farm.started == [first]


def test_a_file_is_kept_by_where_it_is(farm: Farm, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next call comes from another folder, or from the supervisor."""
    monkeypatch.chdir(farm.home.path)
    bring_up(farm.home, replace(PLAIN, head=Head(autoscaling=Path("ray.yaml"))))
    farm.lose()
    monkeypatch.chdir("/")
    bring_up(farm.home, replace(PLAIN, head=Head(autoscaling=farm.home.path / "ray.yaml")))
    assert farm.started == [wanted(farm.home)]


def test_the_command_that_starts_a_farm_anew_has_its_options(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.prepare()
    assert anew(home) == "`benchfarm down`, then `benchfarm up`"
    write_private(home.cluster_file, cluster_of(FLEET).model_dump_json())
    home.prometheus.mkdir()
    write_private(home.prometheus_process, PROCESS.model_dump_json())
    api = ApiProcess(url=API.url, arguments=(*API.arguments,), process=PROCESS)
    write_private(home.api_file, api.model_dump_json())
    assert shlex.split(up_command(home)) == [
        *("benchfarm", "up", "--label", "rack=b2", "--label", "room=left wing", "--no-agent"),
        *("--listen", "10.0.0.1:6379", "--redis", "h:1", "--redis-password-file", "/r"),
        *("--meter", "/bin/meter '{device}'", "--prometheus", "--api=10.0.0.1:8443"),
    ]
    assert anew(home) == f"`benchfarm down`, then `{up_command(home)}`"
    home.cluster_file.write_text("damaged")
    assert anew(home) == "`benchfarm down`, then `benchfarm up`"
