"""The store, the signature check, and what `benchfarm models` takes in or refuses."""

from __future__ import annotations

import shutil
from pathlib import Path
from socket import gethostname

import pytest
import yaml

from controller.contracts.catalog import load_catalog
from controller.contracts.errors import UserError
from controller.contracts.manifests import WorkloadManifest
from controller.contracts.mobile import DatasetPart, ModelFile, OnDevice
from models.mobile import catalogue
from models.mobile.errors import ContentDiffers, FileUnreadable, ModelUnusable, NotInStore
from models.mobile.preparation import PrepareOrder, prepare
from models.mobile.signature import require_signature
from models.mobile.store import Store, digests, pins_of, stored
from tests.support.unsupported_models import with_custom_operator, with_newer_operator

CATALOG = load_catalog()
SURROGATES = {n: w for n, w in CATALOG.workloads.items() if w.on_device and w.on_device.surrogate}
MODELS = Path(catalogue.__file__).parents[1]


def task(name: str) -> OnDevice:
    workload = CATALOG.workloads[name].on_device
    assert workload
    return workload


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("BENCHFARM_MODELS", str(tmp_path / "store"))
    return Store(tmp_path / "store")


def test_a_file_is_found_by_each_checksum_and_a_changed_one_is_told(
    store: Store, tmp_path: Path
) -> None:
    file = tmp_path / "a.bin"
    file.write_bytes(b"content")
    found = store.add(file)
    assert store.add(file) == found == digests(file)
    path = store.find(found["md5"])
    assert path == store.find(found["sha256"])
    assert path is not None
    assert store.verify(found["md5"]) is None
    path.write_bytes(b"contend")
    assert "its checksum is sha256:" in str(store.verify(found["sha256"]))
    with pytest.raises(ContentDiffers, match=r"mine/models/fp32\.checksum"):
        stored(store, ModelFile(checksum=found["sha256"]), "mine/models/fp32")


def test_a_folder_stays_where_it_is_and_every_file_of_it_is_checked(
    store: Store, tmp_path: Path
) -> None:
    folder = tmp_path / "images"
    folder.mkdir()
    (folder / "1.png").write_bytes(b"one")
    store.pin("task/full/samples", store.add(folder)["sha256"])
    assert stored(store, DatasetPart(), "task/full/samples") == folder
    (folder / "1.png").write_bytes(b"two")
    with pytest.raises(ContentDiffers, match=r"1\.png has changed"):
        stored(store, DatasetPart(), "task/full/samples")
    (folder / "1.png").write_bytes(b"one")
    (folder / "0.png").write_bytes(b"zero")
    with pytest.raises(ContentDiffers, match=r"0\.png is new"):
        stored(store, DatasetPart(), "task/full/samples")


def test_what_can_t_be_read_is_told_by_verify_and_the_rest_is_checked(store: Store) -> None:
    store.pin("mosaic/full/truth", checksum := "sha256:" + "0" * 64)
    (store.folder / "objects" / ("0" * 64)).mkdir(parents=True)  # no file, even for root
    assert store.find("sha256:" + "1" * 64) is None
    assert store.has(checksum)
    listed = {status.key: status for status in catalogue.statuses(store)}
    assert listed["mosaic/full/truth"].there
    found = {status.key: status for status in catalogue.verify(store)}
    assert found["mosaic_surrogate/models/fp32"].trouble is None
    trouble = found["mosaic/full/truth"].trouble or ""
    assert trouble.startswith(f"cannot read {store.folder}/objects/000")
    assert "(mosaic/full/truth): Is a directory. Make it readable" in trouble


def test_what_is_pinned_anew_is_another_task(store: Store) -> None:
    mosaic = task("mosaic")
    assert pins_of(store, "mosaic", mosaic, "uint8", "full") == {}
    store.pin("mosaic/full/truth", "sha256:" + "0" * 64)
    store.pin("deeplabv3_plus/full/truth", "sha256:" + "1" * 64)
    assert pins_of(store, "mosaic", mosaic, "uint8", "full") == {
        "mosaic/full/truth": "sha256:" + "0" * 64
    }


CHECKSUM = "md5:" + "0" * 32
MISSING: dict[str, tuple[DatasetPart, str | None, str]] = {
    "a/tiny/samples": (
        DatasetPart(checksum=CHECKSUM, source="https://where.it/is"),
        "imagenet",
        "Run `benchfarm models fetch a` there; its source is https://where.it/is.",
    ),
    "a/full/samples": (DatasetPart(), "ade20k", "Run `benchfarm models prepare ade20k FOLDER`"),
    "a/full/truth": (DatasetPart(), "image_pairs", "Run `benchfarm models prepare opensr FOLDER`"),
    "a/own/samples": (
        DatasetPart(checksum=CHECKSUM),
        "imagenet",
        "Run `benchfarm models add PATH` there.",
    ),
    "a/files/b": (
        DatasetPart(source="https://where.it/is"),
        None,
        "Run `benchfarm models add PATH --as a/files/b` there; its source is https://where.it/is.",
    ),
}


@pytest.mark.parametrize("key", MISSING)
def test_what_is_not_there_is_named_with_its_host_and_how_to_get_it(store: Store, key: str) -> None:
    part, kind, remedy = MISSING[key]
    with pytest.raises(NotInStore) as caught:
        stored(store, part, key, kind)
    said = f"cannot find {key}: it is not in the store of host {gethostname()}. {remedy}"
    assert str(caught.value).startswith(said)


@pytest.mark.parametrize("name", sorted(SURROGATES))
def test_a_surrogate_is_of_its_task_s_signature_and_says_what_it_is(
    name: str, store: Store, tmp_path: Path
) -> None:
    manifest, original = SURROGATES[name], CATALOG.workloads[name.removesuffix("_surrogate")]
    mine, theirs = task(name), task(original.name)
    assert (mine.signature, mine.input, mine.output.kind) == (
        theirs.signature,
        theirs.input,
        theirs.output.kind,
    )
    assert mine.suite is None
    assert "surrogate" in manifest.title
    order = PrepareOrder(
        name=name,
        workload=mine,
        numerics="fp32",
        dataset="tiny",
        store=store.folder,
        folder=tmp_path / "ready",
    )
    done = prepare(order)  # checksums of model and data set, and the signature
    assert done.has_truth
    assert done.samples == mine.datasets["tiny"].samples


def test_a_manifest_can_not_hide_a_surrogate() -> None:
    document = yaml.safe_load((MODELS / "manifests/mobile/edsr_surrogate.yaml").read_text())
    with pytest.raises(ValueError, match="ends in _surrogate"):
        WorkloadManifest.model_validate(document | {"name": "edsr_small"})


CHOICE = {"type": "str", "description": ""}


@pytest.mark.parametrize(
    ("knob", "said", "seen"),
    [
        ("numerics", None, "models: int8, fp32"),
        ("numerics", {"default": "fp32"}, "models: int8, fp32"),
        ("numerics", {"default": "fp32", "choices": ["fp32", "int4"]}, "models: int8, fp32"),
        ("numerics", {"default": "int4", "choices": ["int4"]}, "models: int8, fp32"),
        ("dataset", None, "datasets: full, lite, tiny"),
        ("dataset", {"default": "huge", "choices": ["huge"]}, "datasets: full, lite, tiny"),
    ],
)
def test_a_knob_that_chooses_what_is_not_there_is_refused(
    knob: str, said: dict[str, object] | None, seen: str
) -> None:
    document = yaml.safe_load((MODELS / "manifests/mobile/edsr.yaml").read_text())
    del document["knobs"][knob]
    if said:
        document["knobs"][knob] = CHOICE | said
    with pytest.raises(ValueError, match=rf"knobs\.{knob} must choose among on_device\.{seen}"):
        WorkloadManifest.model_validate(document)


def test_a_task_without_data_sets_has_none_to_choose() -> None:
    document = yaml.safe_load((MODELS / "manifests/mobile/edsr.yaml").read_text())
    del document["on_device"]["datasets"]
    with pytest.raises(ValueError, match=r"knobs\.dataset .* on_device\.datasets: none"):
        WorkloadManifest.model_validate(document)
    del document["knobs"]["dataset"]
    WorkloadManifest.model_validate(document)


def test_a_wrong_signature_is_named_by_file_and_field() -> None:
    model = MODELS / "mobile/surrogates/mosaic_fp32.tflite"
    signature = task("edsr").signature
    assert signature
    expected = (
        r"mosaic_fp32\.tflite \(edsr, signature\.inputs\[0\]\): it has float32 \(1, 512, 512, 3\), "
        r"not uint8 or int8 or float32 \(1, 540, 960, 3\)"
    )
    with pytest.raises(ModelUnusable, match=expected):
        require_signature(model, signature, "edsr")


def test_an_operator_that_litert_lacks_is_named_by_file_and_field(
    store: Store, tmp_path: Path
) -> None:
    source, file = MODELS / "mobile/classifier/shapes_int8.tflite", tmp_path / "mine.tflite"
    with_custom_operator(source, file, "MyConv")
    lacking = r"mine\.tflite \(edsr, model, operator 0\): LiteRT has no operator MyConv\. Convert"
    with pytest.raises(ModelUnusable, match=lacking):
        require_signature(file, None, "edsr")
    with_newer_operator(source, file, 99)
    lacking = r"mine\.tflite \(model\): LiteRT has no operator \w+ of version 99\. Convert"
    with pytest.raises(ModelUnusable, match=lacking):
        catalogue.add(store, file, None)


@pytest.mark.parametrize("content", [b"", b"no model at all", b"TFL3"])
def test_what_is_no_model_is_refused_in_one_line(
    content: bytes, store: Store, tmp_path: Path
) -> None:
    file = tmp_path / "mine.tflite"
    file.write_bytes(content)
    with pytest.raises(ModelUnusable) as caught:
        catalogue.add(store, file, None)
    assert "mine.tflite" in str(caught.value)
    assert "\n" not in str(caught.value)


def own_model(file: Path) -> Path:
    """Write a model that is a surrogate but for a byte, which makes it the user's own."""
    file.write_bytes((MODELS / "mobile/surrogates/mosaic_fp32.tflite").read_bytes() + b"\0")
    return file


def test_any_model_becomes_a_workload_by_its_path_alone(store: Store, tmp_path: Path) -> None:
    file = own_model(tmp_path / "My Net-v2.tflite")
    (added,) = catalogue.add(store, file, None)
    assert added.workload == "my_net_v2"
    workload = load_catalog().workloads["my_net_v2"].on_device
    assert workload
    order = PrepareOrder(
        name="my_net_v2",
        workload=workload,
        numerics="file",
        dataset=None,
        store=store.folder,
        folder=tmp_path / "ready",
    )
    assert prepare(order).samples == 0
    file.write_bytes(file.read_bytes() + b"\0")
    with pytest.raises(UserError, match="the workload my_net_v2 exists already"):
        catalogue.add(store, file, None)


@pytest.mark.parametrize("stem", ["2023", "true", "net: v2", "[v2] net", "net #2", "ä 'net'"])
def test_whatever_a_model_is_called_the_catalogue_stays_whole(
    store: Store, tmp_path: Path, stem: str
) -> None:
    (added,) = catalogue.add(store, own_model(tmp_path / f"{stem}.tflite"), None)
    assert load_catalog().workloads[str(added.workload)].reference == f"{stem}.tflite"


@pytest.mark.parametrize(("stem", "why"), [("模型", "name: "), ("my_surrogate", "_surrogate")])
def test_a_model_whose_name_no_workload_can_have_is_refused(
    store: Store, tmp_path: Path, stem: str, why: str
) -> None:
    with pytest.raises(UserError, match=f"{why}.*\\. Rename the file\\."):
        catalogue.add(store, own_model(tmp_path / f"{stem}.tflite"), None)
    assert not store.folder.exists()


def test_a_task_of_the_user_s_own_is_one_file(store: Store, tmp_path: Path) -> None:
    document = yaml.safe_load((MODELS / "manifests/mobile/edsr_surrogate.yaml").read_text())
    file = tmp_path / "mine.yaml"
    file.write_text(yaml.safe_dump(document | {"name": "my_edsr_surrogate"}))
    (added,) = catalogue.add(store, file, None)
    assert added.workload == "my_edsr_surrogate"
    assert "my_edsr_surrogate" in load_catalog().workloads


def test_a_task_whose_model_is_not_in_the_package_is_not_added(
    store: Store, tmp_path: Path
) -> None:
    document = yaml.safe_load((MODELS / "manifests/mobile/edsr_surrogate.yaml").read_text())
    document["on_device"]["models"]["fp32"]["path"] = "mobile/typo.tflite"
    file = tmp_path / "mine.yaml"
    file.write_text(yaml.safe_dump(document | {"name": "my_surrogate"}))
    seen = r"typo\.tflite \(my_surrogate/models/fp32\.path\): No such file or directory"
    with pytest.raises(FileUnreadable, match=seen):
        catalogue.add(store, file, None)
    assert not store.folder.exists()
    # One whose file has gone since it was added.
    (store.folder / "tasks").mkdir(parents=True)
    shutil.copyfile(file, store.folder / "tasks/my_surrogate.yaml")
    found = {status.key: status.trouble for status in catalogue.verify(store)}
    assert "No such file" in str(found["my_surrogate/models/fp32"])


@pytest.mark.parametrize("name", ["../../x_surrogate", "a/b_surrogate", "", "Mine_surrogate"])
def test_a_name_that_leads_elsewhere_is_refused(store: Store, tmp_path: Path, name: str) -> None:
    document = yaml.safe_load((MODELS / "manifests/mobile/edsr_surrogate.yaml").read_text())
    file = tmp_path / "mine.yaml"
    file.write_text(yaml.safe_dump(document | {"name": name}))
    with pytest.raises(UserError, match="name"):
        catalogue.add(store, file, None)
    assert not (store.folder / "tasks").exists()


def test_a_file_that_is_not_the_published_one_is_not_pinned(store: Store, tmp_path: Path) -> None:
    file = tmp_path / "mobiledet.tflite"
    file.write_bytes(b"x")
    with pytest.raises(ContentDiffers, match=r"mobiledet/models/fp32 \(checksum\): it is md5:"):
        catalogue.add(store, file, "mobiledet/models/fp32")
    with pytest.raises(
        UserError, match=r"no manifest has that key\. Choose among mobiledet/models/int8"
    ):
        catalogue.add(store, file, "mobiledet/models/fp8")
