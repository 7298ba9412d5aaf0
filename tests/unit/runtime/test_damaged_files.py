"""Random damage of each file that benchfarm reads back: the same again, or one clear line."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from agents.inference.bundle.build import Bundle, _found
from agents.inference.bundle.requirements import Requirements
from agents.outbox import Outbox
from agents.stacks.environments import EnvironmentFolder, InstallState
from controller.contracts.adb_status import AdbStatus, RouteStatus
from controller.contracts.catalog import load_catalog
from controller.contracts.error_payload import ErrorPayload
from controller.contracts.errors import BenchfarmError, PhoneUnavailable, UserError
from controller.contracts.manifests import StackEnvironment
from controller.contracts.mobile import ModelFile
from controller.contracts.profile import ProfileSummary
from controller.contracts.wire import AttemptRef, Report
from controller.profiles import files as profiles
from controller.profiles.model import Profile
from controller.runtime import lifetime
from controller.runtime.adb_agents import AdbAgent
from controller.runtime.health import why_away
from controller.runtime.home import ApiProcess, Cluster, Endpoint, Home, Process, read_process
from controller.runtime.lifetime import UpOptions, wanted
from controller.runtime.prometheus import running_beside
from models.mobile.samples import TRUTH_JSON, read_truths
from models.mobile.store import Store, stored
from tests.support.file_damage import DAMAGES
from tests.support.store_examples import result

SEEDS = range(90)
LONGEST_LINE = 2000
UNREADABLE = object()
"""What a reader gives that puts a damaged file aside, or makes what it holds anew."""


class Kind(NamedTuple):
    """A kind of file: how one comes to be, and how it is read back."""

    make: Callable[[Path], Path]
    """Make it in a folder; return the file."""
    read: Callable[[Path], object]
    """Read it, given the folder; UNREADABLE where nothing is there any more."""
    checked: bool = False
    """Whether a checksum covers it, so that nothing else may ever be read."""


def _written(path: Path, text: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    path.chmod(0o600)
    return path


def _cluster(folder: Path) -> Path:
    process = Process(pid=2**30, started=7, name="gcs_server")
    cluster = Cluster(
        instance="abc",
        ray_address="127.0.0.1:1",
        dashboard_url="http://127.0.0.1:2",
        temp_dir="/t",
        options={"listen": "127.0.0.1"},
        head=(process,),
        api_port=3,
    )
    return _written(Home(folder).cluster_file, cluster.model_dump_json())


def _endpoint(folder: Path) -> Path:
    endpoint = Endpoint(url="http://127.0.0.1:3", version="0.2.0", pid=7, metrics_port=4)
    return _written(Home(folder).endpoint_file, endpoint.model_dump_json())


def _process(folder: Path) -> Path:
    process = Process(pid=7, started=8, name="prometheus")
    return _written(Home(folder).prometheus_process, process.model_dump_json())


def _api(folder: Path) -> Path:
    process = Process(pid=7, started=8, name="main")
    api = ApiProcess(url="https://127.0.0.1:1/", arguments=("--plain",), process=process)
    return _written(Home(folder).api_file, api.model_dump_json())


def _options(folder: Path) -> Path:
    options = UpOptions(labels={"rack": "7"}, phone_power_cycle=("/bin/true", "{serial}"))
    return _written(Home(folder).wanted, lifetime._OPTIONS.dump_json(options))


def _status(folder: Path) -> Path:
    error = PhoneUnavailable("taking in phone 1", "it is locked", "unlock it")
    routes = {"a:1": RouteStatus(device_id="p"), "b": RouteStatus(complaint=ErrorPayload.of(error))}
    status = AdbStatus(server="/run/adb", routes=routes)
    return _written(folder / "status.json", status.model_dump_json())


CATALOG = load_catalog()
REF = AttemptRef(run_id="abc", attempt=1)


def _report(folder: Path) -> Path:
    measured = result(0.25)
    report = Report(ref=REF, agent_id="a", incarnation="i", started_at=5.0, outcome=measured)
    Outbox(folder).put(report)
    return folder / "abc-1.json"


def _pending(folder: Path) -> object:
    reports = Outbox(folder).pending()
    if not reports:
        assert [path.name for path in folder.iterdir()] == ["abc-1.damaged"]
    return reports or UNREADABLE


def _environment(folder: Path) -> EnvironmentFolder:
    (first, *_) = (s.environment for s in CATALOG.stacks.values() if s.environment)
    assert isinstance(first, StackEnvironment)
    return EnvironmentFolder(folder, first)


def _installed(folder: Path) -> Path:
    folder.mkdir()
    _environment(folder).note(InstallState(origin="abc", done=("numpy==1",), lock="def"))
    return folder / "install.json"


def _bundle(folder: Path) -> Path:
    bundle = Bundle(
        name="litert-x86_64-1",
        content_sha256="e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        archive_sha256="e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        inputs_sha256="abc",
        folder=folder / "litert-x86_64-1",
        archive=_written(folder / "litert-x86_64-1.tar", ""),
        requirements=Requirements(kernel=(3, 2, 0), page_bytes=4096, storage_bytes=1),
    )
    return _written(folder / "record.json", bundle.model_dump_json())


def _profile(name: str) -> Kind:
    def make(folder: Path) -> Path:
        profiles.write(Profile(ProfileSummary(steps=3), (), ()), folder)
        return folder / name

    return Kind(make, profiles.read)


def _truths(folder: Path) -> Path:
    return _written(folder / TRUTH_JSON, '[{"boxes": [1.5, 2], "labels": [3]}, {"text": ["a"]}]')


def _model(folder: Path) -> ModelFile:
    model = _written(folder / "model.bin", b"content")
    known = Store(folder / "store").add(model)
    return ModelFile(checksum=known["md5"], source="https://example.org")


def _name(folder: Path) -> Path:
    checksum = _model(folder).checksum
    return folder / "store" / "names" / str(checksum).replace(":", "-")


def _object(folder: Path) -> Path:
    _model(folder)
    (path,) = (folder / "store" / "objects").iterdir()
    return path


def _found_model(folder: Path) -> object:
    model = ModelFile(checksum="md5:9a0364b9e99bb480dd25e1f0284c8555", source="https://example.org")
    return stored(Store(folder / "store"), model, "task/models/fp32").read_bytes()


def _listing(folder: Path) -> Path:
    _written(folder / "images" / "1.png", b"png")
    known = Store(folder / "store").add(folder / "images")
    Store(folder / "store").pin("task/data/samples", known["sha256"])
    return folder / "store" / "objects" / known["sha256"].removeprefix("sha256:")


def _pin(folder: Path) -> Path:
    _listing(folder)
    return folder / "store" / "pins" / "task/data/samples"


def _found_folder(folder: Path) -> object:
    images = ModelFile(source="https://example.org")
    return stored(Store(folder / "store"), images, "task/data/samples")


def _token(folder: Path) -> Path:
    return _written(Home(folder).api_token, "0123456789abcdef" * 4)


def _metrics_token(folder: Path) -> Path:
    _written(Home(folder).ray_token, "0123456789abcdef" * 4)
    Home(folder).prepare()
    return Home(folder).metrics_token


def _prepared(folder: Path) -> object:
    Home(folder).prepare()
    return Home(folder).metrics_token.read_text()


KINDS = {
    "cluster.json": Kind(_cluster, lambda folder: (Home(folder).cluster(), why_away(Home(folder)))),
    "controller.json": Kind(_endpoint, lambda folder: Home(folder).endpoint().address),
    "up.json": Kind(_options, lambda folder: wanted(Home(folder))),
    "process.json": Kind(_process, lambda folder: read_process(Home(folder).prometheus_process)),
    "api.json": Kind(_api, lambda folder: Home(folder).api_process()),
    "prometheus/url": Kind(
        lambda folder: _written(Home(folder).prometheus_url, "http://127.0.0.1:9"),
        lambda folder: running_beside(Home(folder)) or UNREADABLE,
    ),
    "status.json": Kind(_status, lambda folder: AdbAgent(folder / "status.json").read()),
    "outbox": Kind(_report, _pending, checked=True),
    "install.json": Kind(_installed, lambda folder: _environment(folder).state or UNREADABLE),
    "record.json": Kind(
        _bundle, lambda folder: _found(folder / "record.json", "abc") or UNREADABLE
    ),
    **{f"a profile's {n}": _profile(n) for n in ("profile.json", "kernels.parquet")},
    "truth.json": Kind(_truths, read_truths),
    "a model's name": Kind(_name, _found_model, checked=True),
    "a model": Kind(_object, _found_model, checked=True),
    "a folder's listing": Kind(_listing, _found_folder, checked=True),
    "a pin": Kind(_pin, _found_folder, checked=True),
    "api-token": Kind(_token, lambda folder: Home.read_token(Home(folder).api_token)),
    "metrics-token": Kind(_metrics_token, _prepared, checked=True),
}


@pytest.mark.parametrize("name", KINDS)
def test_damage_is_one_clear_line_or_nothing(tmp_path: Path, name: str) -> None:
    kind, noticed = KINDS[name], 0
    for seed in SEEDS:
        folder = tmp_path / str(seed)
        path = kind.make(folder)
        data, before = path.read_bytes(), _read(kind, folder)
        damage, chance = DAMAGES[seed % len(DAMAGES)], random.Random(seed)
        path.write_bytes(damage(chance, data))
        context = f"{name}, damage {seed} by {damage.__name__}"
        after = _read(kind, folder)
        if isinstance(after, BenchfarmError):
            assert isinstance(after, UserError), context
            assert str(after).isprintable(), context
            assert len(str(after)) < LONGEST_LINE, context
        elif kind.checked:
            assert after is UNREADABLE or after == before, context
        noticed += after is UNREADABLE or isinstance(after, BenchfarmError)
    assert noticed or name == "metrics-token", "it is made anew from the other"


def _read(kind: Kind, folder: Path) -> object:
    try:
        return kind.read(folder)
    except BenchfarmError as error:
        return error
