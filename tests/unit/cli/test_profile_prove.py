"""`benchfarm profile advise --prove`: which comparisons are run, and what is shown of them."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from controller.cli import profile_prove
from controller.cli.comparison_run import ComparisonRun, check_comparison
from controller.cli.profile_prove import Profiled, profiled, wanted_for
from controller.cli.proving_device import ProfiledHost, proving_device
from controller.contracts.advice import Remedy
from controller.contracts.base import Scalar
from controller.contracts.catalog import Catalog, load_catalog
from controller.contracts.device import DeviceKind, RegisteredDevice
from controller.contracts.errors import NotFound, UserError
from controller.contracts.result import Validity
from controller.contracts.sweep import Side, Stopping, Sweep
from controller.contracts.units import Unit
from controller.profiles.files import write
from controller.profiles.model import Profile
from controller.reports.comparison import Comparison
from controller.reports.result_selection import Wanted
from controller.reports.verdict import ComparisonOutcome
from controller.scheduling.expansion import cells_of
from controller.store.sqlite import SqliteStore
from tests.support.command_line import complaint_of, outcome_of, printed_by
from tests.support.planted_profile import kernel, profile, step
from tests.support.store_examples import AGENT, CPU, PHONE

WORKLOAD = "retinanet_resnext50"
OWN = ProfiledHost("Xeon", 2, "own")
UNKNOWN = ProfiledHost("Xeon", None, None)
"""A server of which a profile tells nothing but its CPU."""


def knobs(**chosen: Scalar) -> dict[str, Scalar]:
    """Return all knobs of a training cell, as a profile keeps them."""
    sweep = Sweep(
        name="profile",
        workload=(WORKLOAD,),
        stack=("torch",),
        scenario=("training",),
        knobs={name: (value,) for name, value in chosen.items()},
        profile=True,
    )
    (cell,) = cells_of(sweep, load_catalog())
    return dict(cell.knobs)


def planted(**told: Any) -> Profile:  # noqa: ANN401 - fields of an origin
    """Return a profile of a step of 0.53 s, with an optimizer that is no fused one, and a norm and
    its ReLU."""
    made = profile([*step(), kernel("aten::mul", 0.03, module="act.bn1")], load_s=0.2)
    assert made.summary.origin
    origin = made.summary.origin.model_copy(
        update={
            "workload": WORKLOAD,
            "knobs": knobs(fused_optimizer=False, frozen_bn="mul_add"),
            "environment": {"cpu_model": "Xeon"},
            **told,
        }
    )
    return replace(made, summary=made.summary.model_copy(update={"origin": origin}))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home whose farm has a Xeon on another host than this, and is down."""
    with closing(SqliteStore.open(tmp_path / "store.sqlite")) as store:
        store.save_agent(AGENT, [CPU, PHONE])
    return tmp_path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(planted(), tmp_path / "profile")
    return tmp_path / "profile"


class PlantedFarm:
    """Stands in for the farm: keeps what was to be compared, and answers with what is planted."""

    def __init__(self, **outcomes: ComparisonRun) -> None:
        self.outcomes = outcomes
        self.asked: list[tuple[Wanted, Stopping]] = []

    def run(self, _: Catalog, wanted: Wanted, stopping: Stopping, *, quiet: bool) -> ComparisonRun:
        """Answer as `run_comparison` does."""
        assert quiet in (True, False)
        self.asked.append((wanted, stopping))
        (name,) = wanted.b.knobs
        return self.outcomes[name]


def compared(
    ratio: float, low: float, high: float, validity: Validity = Validity.VALID
) -> ComparisonRun:
    found = Comparison(
        a="torch:x=0",
        b="torch:x=1",
        metric="step_time",
        ratio=ratio,
        ratio_low=low,
        ratio_high=high,
        pairs=20,
        asked_width=0.03,
        outcome=ComparisonOutcome.B_FASTER,
        verdict="B is faster",
        workload=WORKLOAD,
        scenario="training",
        device=(CPU.device.id,),
        device_names=(CPU.device.id,),
        device_kind=(DeviceKind.CPU_HOST,),
        virtual=False,
        unit=Unit.SECONDS,
        value_a=0.6,
        value_b=0.6 / ratio,
        knobs={},
        validity=validity,
        reasons=() if validity is Validity.VALID else ("the machine was not quiet",),
        runs=("r",),
        environment={},
    )
    return ComparisonRun("compare-1", found)


def test_each_advised_knob_is_compared_with_the_profiled_cell(
    home: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ReLU's 80 ms, the norm's 30 and the optimizer's 40 ms may be saved: 55 and 20 are
    predicted."""
    farm = PlantedFarm(
        frozen_bn=compared(1.1, 1.07, 1.13),
        fused_optimizer=compared(1.1, 1.07, 1.13, Validity.DISTURBED),
    )
    monkeypatch.setattr(profile_prove, "run_comparison", farm.run)
    told = printed_by(home, "profile", "advise", str(folder), "--prove", "--time-limit", "90")
    assert [dict(wanted.b.knobs) for wanted, _ in farm.asked] == [
        {"frozen_bn": "fused"},
        {"fused_optimizer": True},
    ]
    wanted, stopping = farm.asked[0]
    assert (wanted.workload, wanted.scenario, wanted.device) == (WORKLOAD, "training", "host-1")
    assert (wanted.a.stack, wanted.a.knobs) == ("torch", {"frozen_bn": "mul_add"})
    assert {**wanted.knobs, **wanted.a.knobs} == knobs(fused_optimizer=False, frozen_bn="mul_add")
    assert stopping.time_limit_s == 90
    assert "frozen_bn=fused (unfused norms, ReLU)\n  predicted 55 ms [0 ms, 110 ms]" in told
    assert ", VALID: at least half of predicted; prediction inside the realised interval" in told
    assert "DISTURBED: no proof\n  DISTURBED: the machine was not quiet\n" in told
    assert "  not provable here: it is neither a knob nor a stack\n" in told
    assert told.endswith(
        "of 1 VALID comparisons with a prediction above 3%: realised at least half of predicted: 1;"
        " prediction inside the realised interval: 1\n"
    )


@pytest.mark.parametrize("top", [1, 2, 12])
def test_a_change_is_predicted_alone_wherever_the_list_is_cut(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, top: int
) -> None:
    """Beside a thread too few, the list grants the norm and its ReLU half of their 110 ms.

    Their share is that of the step of 0.53 s, as what is realised, whatever its loading takes.
    """
    facts = {"cpu_model": "Xeon", "cores": 2}
    chosen = knobs(fused_optimizer=True, frozen_bn="mul_add", threads=1)
    write(planted(threads=1, knobs=chosen, environment=facts), tmp_path / "slow")
    answer = compared(1.1, 1.07, 1.13)
    farm = PlantedFarm(threads=answer, frozen_bn=answer)
    monkeypatch.setattr(profile_prove, "run_comparison", farm.run)
    page = tmp_path / "page.html"
    command = ("profile", "advise", str(tmp_path / "slow"), "--top", str(top), "-o", str(page))
    told, _, status = outcome_of(home, *command, "--prove")
    assert status == 0
    alone, is_compared = "55 ms [0 ms, 110 ms], 10.4%", top > 2
    assert (f"frozen_bn=fused (unfused norms, ReLU)\n  predicted {alone}" in told) == is_compared
    of_rows = f"predicted of this change alone, by unfused norms, ReLU: {alone}; VALID"
    assert page.read_text().count(of_rows) == (2 if is_compared else 0)
    assert page.read_text().count("not compared") == {1: 3, 2: 2, 12: 0}[top]


def test_another_stack_is_compared_by_the_knobs_that_both_have() -> None:
    known = load_catalog()
    torch = known.stacks["torch"]
    fewer = torch.model_copy(
        update={
            "name": "plain",
            "knobs": {name: of for name, of in torch.knobs.items() if name != "memory_format"},
        }
    )
    catalog = known.model_copy(update={"stacks": {**known.stacks, "plain": fewer}})
    cell = Profiled(WORKLOAD, "torch", knobs(memory_format="channels_last"), UNKNOWN, 0.5)
    compiled = Remedy(kind="stack", value="torch-compile")
    wanted = wanted_for(catalog, cell, compiled, "host-1")
    assert (wanted.a, wanted.b) == (Side(stack="torch"), Side(stack="torch-compile"))
    assert wanted.knobs == cell.knobs
    check_comparison(catalog, wanted, Stopping(time_limit_s=60))
    other = wanted_for(catalog, cell, Remedy(kind="stack", value="plain"), "host-1")
    assert other.a == Side(stack="torch", knobs={"memory_format": "channels_last"})
    assert {**other.knobs, **other.a.knobs} == cell.knobs
    assert other.b == Side(stack="plain")
    check_comparison(catalog, other, Stopping(time_limit_s=60))
    gone = wanted_for(catalog, cell, Remedy(kind="stack", value="gone"), "host-1")
    with pytest.raises(UserError, match="gone"):
        check_comparison(catalog, gone, Stopping(time_limit_s=60))


def test_proofs_as_json(home: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lost = ComparisonRun("compare-2", None, ("host-1: workload: killed",))
    farm = PlantedFarm(frozen_bn=compared(2.0, 1.9, 2.1), fused_optimizer=lost)
    monkeypatch.setattr(profile_prove, "run_comparison", farm.run)
    page = folder.parent / "page.html"
    words = ("profile", "advise", str(folder), "--prove", "--json", "-o", str(page))
    told, said, status = outcome_of(home, *words)
    assert (said, status) == (f"page written to {page}\n" * 2, 0)
    found = json.loads(told)
    assert "no proof: host-1: workload: killed" in page.read_text()
    assert "prediction outside the realised interval" in page.read_text()
    assert (found["counted"], found["at_least_half"], found["inside"]) == (1, 1, 0)
    by_name = {one["prediction"]["remedy"]["name"]: one for one in found["proofs"]}
    assert by_name["frozen_bn"]["realised"]["share"] == pytest.approx(0.5)
    assert by_name["frozen_bn"]["realised"]["seconds"] == pytest.approx(found["step_s"] / 2)
    assert by_name["fused_optimizer"]["realised"] is None
    assert by_name["fused_optimizer"]["reasons"] == ["host-1: workload: killed"]


def test_a_time_limit_without_proofs_is_refused(home: Path, folder: Path) -> None:
    command = ("profile", "advise", str(folder), "--time-limit", "60")
    assert (
        complaint_of(home, *command)
        .strip()
        .endswith(
            "cannot use --time-limit: it limits comparisons, and without --prove there are none. "
            "Add --prove, or leave it out."
        )
    )


def test_it_needs_a_farm(home: Path, folder: Path) -> None:
    told, complaint, status = outcome_of(home, "profile", "advise", str(folder), "--prove")
    assert status == 2
    assert complaint.endswith("no farm is up here. Run `benchfarm up`.\n")
    assert complaint.count("\n") == 1
    assert "realised" not in told


@pytest.mark.parametrize(
    ("origin", "complaint"),
    [
        ({"knobs": None}, "the profile does not tell its workload, stack, knobs and step."),
        ({"workload": None}, "the profile does not tell its workload, stack, knobs and step."),
        ({"stack": None}, "the profile does not tell its workload, stack, knobs and step."),
        ({"environment": {}}, "the profile does not tell its CPU."),
        (
            {"environment": {"cpu_model": "EPYC"}},
            "it was profiled on EPYC, and no server of the farm has it: they have Xeon. Join",
        ),
    ],
)
def test_a_profile_of_an_unknown_cell_or_another_cpu_is_refused(
    home: Path, tmp_path: Path, origin: dict[str, object], complaint: str
) -> None:
    write(planted(**origin), tmp_path / "other")
    assert complaint in complaint_of(home, "profile", "advise", str(tmp_path / "other"), "--prove")


def test_a_cell_that_no_farm_can_run_is_told_as_not_provable(home: Path, tmp_path: Path) -> None:
    write(planted(workload="gone"), tmp_path / "gone")
    told = printed_by(home, "profile", "advise", str(tmp_path / "gone"), "--prove")
    assert "  not provable here: " in told
    assert "gone" in told
    assert "of 0 VALID comparisons" in told


def test_the_device_that_compares_is_named_if_it_is_another(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = {name: compared(1.1, 1.07, 1.13) for name in ("frozen_bn", "fused_optimizer")}
    for device, said in (("gone", 1), ("host-1", 0)):
        farm = PlantedFarm(**answers)
        monkeypatch.setattr(profile_prove, "run_comparison", farm.run)
        write(planted(device=device), tmp_path / device)
        command = ("profile", "advise", str(tmp_path / device), "--prove")
        _, complaint, status = outcome_of(home, *command)
        assert status == 0, complaint
        assert complaint.count("comparing on host-1; profiled was gone\n") == said
        assert {wanted.device for wanted, _ in farm.asked} == {"host-1"}


@pytest.mark.parametrize(
    ("asked", "complaint"),
    [
        ("phone-1", "it was profiled on Xeon, and phone-1 has none, since it is no server. Leave"),
        ("nobody", "nobody"),
    ],
)
def test_a_device_that_cannot_prove_it_is_refused(
    home: Path, folder: Path, asked: str, complaint: str
) -> None:
    command = ("profile", "advise", str(folder), "--device", asked)
    assert "without --prove there are none. Add --prove" in complaint_of(home, *command)
    assert complaint in complaint_of(home, *command, "--prove")


def server(id_: str, online: bool = True, **facts: Scalar) -> RegisteredDevice:
    known = {"cpu_model": "Xeon", "cores": 2, **facts}
    device = CPU.device.model_copy(update={"id": id_, "facts": known, "labels": {}})
    return CPU.model_copy(update={"device": device, "online": online})


@pytest.mark.parametrize(
    ("devices", "chosen"),
    [
        ([server("a"), server("own")], "own"),
        ([server("a", cores=64), server("b")], "b"),
        ([server("a"), server("own", online=False)], "a"),
        ([server("a", cores=64), server("b"), server("own", online=False)], "b"),
        ([server("a", cpu_model="EPYC"), server("b", cores=64)], "b"),
        ([server("own", cpu_model="EPYC"), server("a", online=False)], "a"),
    ],
    ids=[
        *("the profiled one", "it is in another farm", "it is away", "as many cores", "its CPU"),
        "another CPU since",
    ],
)
def test_of_several_servers_the_most_alike_proves(
    devices: list[RegisteredDevice], chosen: str
) -> None:
    for order in (devices, devices[::-1]):
        assert proving_device(order, OWN, None, "p").device.id == chosen


@pytest.mark.parametrize(("facts", "cores"), [({"cores": 2}, 2), ({}, None)])
def test_the_profiled_server_is_as_its_profile_tells(
    facts: dict[str, Scalar], cores: int | None
) -> None:
    made = planted(device="own", environment={"cpu_model": "Xeon", **facts})
    assert profiled("p", made.summary).host == ProfiledHost("Xeon", cores, "own")


def test_a_server_of_another_cpu_is_not_taken() -> None:
    devices = [server("a", cpu_model="EPYC"), server("b")]
    assert proving_device(devices, UNKNOWN, "b", "p").device.id == "b"
    with pytest.raises(UserError, match="it was profiled on Xeon, and a has EPYC"):
        proving_device(devices, UNKNOWN, "a", "p")
    with pytest.raises(NotFound):
        proving_device(devices, UNKNOWN, "nobody", "p")
    virtual = devices[1].device.model_copy(update={"virtual": True})
    only = [devices[0], devices[1].model_copy(update={"device": virtual})]
    with pytest.raises(UserError, match="no server of the farm has it: they have EPYC"):
        proving_device(only, UNKNOWN, None, "p")
