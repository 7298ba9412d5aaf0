from __future__ import annotations

import pytest

from agents.host.launch import GLIBC_TUNED, launch_environment, thread_count
from controller.contracts.base import Scalar
from tests.support import builders

SERVER = builders.cpu(cores=frozenset(range(6)))


@pytest.mark.parametrize(
    ("knobs", "threads"), [({}, 6), ({"threads": 0}, 6), ({"threads": 4}, 4), ({"threads": 64}, 64)]
)
def test_threads_are_told_or_one_a_core(knobs: dict[str, Scalar], threads: int) -> None:
    assert thread_count(knobs, SERVER) == threads
    assert launch_environment({}, knobs, SERVER)["OMP_NUM_THREADS"] == str(threads)


def test_a_device_without_cores_gets_a_thread() -> None:
    assert thread_count({}, builders.phone()) == 1


@pytest.mark.parametrize(
    "name",
    [
        "OMP_NUM_THREADS",
        "OMP_PROC_BIND",
        "KMP_AFFINITY",
        "GOMP_CPU_AFFINITY",
        "MKL_NUM_THREADS",
        "ONEDNN_MAX_CPU_ISA",
        "DNNL_MAX_CPU_ISA",
        "ATEN_CPU_CAPABILITY",
        "TORCH_LOGS",
        "TORCHINDUCTOR_FREEZING",
        "OPENBLAS_NUM_THREADS",
        "MALLOC_ARENA_MAX",
        "GLIBC_TUNABLES",
        "LD_PRELOAD",
        "RAY_AUTH_TOKEN_PATH",
        "RAY_JOB_ID",
    ],
)
def test_what_influences_speed_is_not_inherited(name: str) -> None:
    assert launch_environment({name: "outside"}, {}, SERVER).get(name) != "outside"


def test_the_rest_is_inherited() -> None:
    inherited = {"PATH": "/bin", "HOME": "/root", "LD_LIBRARY_PATH": "/lib", "X_OMP_": "1"}
    environ = launch_environment(inherited, {}, SERVER)
    assert inherited.items() <= environ.items()
    assert set(environ) - set(inherited) == {
        "OMP_NUM_THREADS",
        "PYTHONSAFEPATH",
        "PYTHONUNBUFFERED",
    }


@pytest.mark.parametrize(
    ("malloc", "tunables"), [("glibc", None), ("glibc-tuned", GLIBC_TUNED), (None, None)]
)
def test_malloc_is_tuned_when_told(malloc: str | None, tunables: str | None) -> None:
    knobs: dict[str, Scalar] = {"malloc": malloc} if malloc else {}
    assert launch_environment({}, knobs, SERVER).get("GLIBC_TUNABLES") == tunables
