from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from agents.host.compiler import WRAPPER, inductor_environ
from agents.host.launch import (
    GLIBC_HUGE,
    GLIBC_KEEPS,
    Launch,
    LaunchedRank,
    launch_of,
    launched_ranks,
    while_watched,
)
from agents.host.tools import LIBRARIES, HostTools
from controller.contracts.base import Scalar
from controller.contracts.errors import WorkerFault
from controller.contracts.result import Blame
from tests.support import builders
from tests.support.knobs import launch_knobs

SERVER = builders.cpu(cores=frozenset(range(8)))
# Two NUMA nodes of four CPUs each; CPUs n and n + 2 of a node share a core.
HOST = HostTools(
    nodes={0: frozenset({0, 1, 2, 3}), 1: frozenset({4, 5, 6, 7})},
    sockets={0: frozenset({0, 1, 2, 3}), 1: frozenset({4, 5, 6, 7})},
    siblings=tuple(map(frozenset, ((0, 2), (1, 3), (4, 6), (5, 7)))),
    libraries={name: f"/lib/{library.soname}" for name, library in LIBRARIES.items()},
    numactl="/usr/bin/numactl",
    taskset="/usr/bin/taskset",
    huge_pages="madvise",
    isa_unusable=(),
    cpu_quota=None,
    cxx="/usr/bin/g++",
    inductor_cache=Path("/home/ann/.cache/benchfarm/inductor"),
)
ONE_NODE = replace(HOST, nodes={0: frozenset(range(8))})
TUNED = ":".join(GLIBC_KEEPS)
PLAIN = launch_knobs(malloc="glibc")
"""Settings that change nothing."""


def launch(host: HostTools = HOST, /, **knobs: Scalar) -> Launch:
    return launch_of({}, {**PLAIN, **knobs}, SERVER, host)


def refusal(host: HostTools = HOST, /, **knobs: Scalar) -> str:
    with pytest.raises(WorkerFault) as caught:
        launch(host, **knobs)
    failure = caught.value.failure
    assert (failure.blame, failure.kind) == (Blame.USER, "launch")
    assert "\n" not in failure.message
    return failure.message


@pytest.mark.parametrize(
    ("knobs", "threads"),
    [
        ({}, 8),
        ({"threads": 0}, 8),
        ({"threads": 3}, 3),
        ({"threads": 8}, 8),
        ({"cores": "physical"}, 4),
        ({"cores": "2,4-6"}, 4),
        ({"cores": "2,4-6", "threads": 1}, 1),
    ],
)
def test_threads_are_told_or_one_for_each_core(knobs: dict[str, Scalar], threads: int) -> None:
    assert launch(**knobs).environ["OMP_NUM_THREADS"] == str(threads)


@pytest.mark.parametrize(
    ("quota", "knobs", "threads"),
    [
        (2.0, {}, 2),
        (2.5, {}, 2),
        (0.5, {}, 1),
        (8.0, {}, 8),
        (64.0, {}, 8),
        (2.0, {"cores": "3"}, 1),
        (2.0, {"threads": 8}, 8),
        (4.0, {"ranks": 2}, 2),
        (2.0, {"ranks": 4}, 1),
        (1.0, {"ranks": 4}, 1),
        (4.0, {"ranks": 2, "threads": 4}, 4),
    ],
)
def test_threads_that_nobody_wants_more_of_stay_within_the_quota(
    quota: float, knobs: dict[str, Scalar], threads: int
) -> None:
    limited = replace(HOST, cpu_quota=quota)
    assert launch(limited, **knobs).environ["OMP_NUM_THREADS"] == str(threads)
    for rank in launched_ranks({**PLAIN, **knobs}, SERVER, limited) if "ranks" in knobs else ():
        assert len(rank.cores) == threads


def test_a_device_without_cores_gets_a_thread() -> None:
    assert launch_of({}, PLAIN, builders.phone(), HOST).environ["OMP_NUM_THREADS"] == "1"


def test_more_threads_than_cores_are_refused() -> None:
    assert "threads=9 is more than the 8 cores" in refusal(threads=9)
    assert "threads=2 is more than the 1 cores" in refusal(threads=2, cores="3")


@pytest.mark.parametrize(
    ("knobs", "threads"),
    [
        ({"ranks": 2}, 4),
        ({"ranks": 2, "threads": 3}, 3),
        ({"ranks": 2, "cores": "physical"}, 2),
        ({"ranks": 3}, 2),
    ],
)
def test_threads_of_ranks_are_told_or_as_many_as_fit(
    knobs: dict[str, Scalar], threads: int
) -> None:
    assert launch(**knobs).environ["OMP_NUM_THREADS"] == str(threads)


def test_ranks_have_their_own_cores_and_the_memory_of_their_node() -> None:
    knobs = {**PLAIN, "ranks": 2, "cores": "physical", "numa": "bind"}
    assert launched_ranks(knobs, SERVER, HOST) == (
        LaunchedRank(("/usr/bin/numactl", "--physcpubind=0,1", "--membind=0"), (0, 1)),
        LaunchedRank(("/usr/bin/numactl", "--physcpubind=4,5", "--membind=1"), (4, 5)),
    )
    spread = launched_ranks({**knobs, "numa": "interleave"}, SERVER, HOST)
    assert [rank.prefix[-1] for rank in spread] == ["--interleave=0,1"] * 2, "over all of the run's"
    of_memory = replace(HOST, nodes={**HOST.nodes, 2: frozenset()})
    assert launched_ranks(knobs, SERVER, of_memory) == launched_ranks(knobs, SERVER, HOST)
    anywhere = launched_ranks({**PLAIN, "ranks": 2, "threads": 1}, SERVER, HOST)
    assert [rank.prefix for rank in anywhere] == [
        ("/usr/bin/taskset", "--cpu-list", "0"),
        ("/usr/bin/taskset", "--cpu-list", "4"),
    ]


def test_ranks_get_whole_physical_cores() -> None:
    knobs = {**PLAIN, "ranks": 4, "threads": 2}
    ranks = launched_ranks(knobs, SERVER, HOST)
    assert [rank.cores for rank in ranks] == [(0, 2), (1, 3), (4, 6), (5, 7)]


@pytest.mark.parametrize(
    ("cpuset", "cores"), [({3, 4, 6, 7}, "3,4,7"), ({0, 1, 2, 3}, "0,1"), ({2, 3}, "")]
)
def test_a_physical_core_counts_by_the_first_cpu_that_the_device_has(
    cpuset: set[int], cores: str
) -> None:
    device = builders.cpu(cores=frozenset(cpuset))
    found = launch_of({}, {**PLAIN, "cores": "physical"}, device, HOST)
    assert found.prefix == (("/usr/bin/taskset", "--cpu-list", cores) if cores else ())
    assert found.environ["OMP_NUM_THREADS"] == str(len(cores.split(",")) if cores else 2)


def test_where_the_kernel_tells_no_physical_cores_all_are_taken() -> None:
    assert launch(replace(HOST, siblings=()), cores="physical").prefix == ()


def test_ranks_that_do_not_fit_are_refused() -> None:
    assert "ranks=3 x threads=3 is more than the 8 cores to run on. Low" in refusal(
        ranks=3, threads=3
    )
    assert "across sockets or NUMA nodes, which have 1, 3 of" in refusal(
        ranks=2, threads=2, cores="3-6"
    )


@pytest.mark.parametrize(
    ("cores", "seen"),
    [
        ("6-9", "has no CPU 8,9"),
        ("some", "is not a list of CPUs"),
        ("", "not a list"),
        ("3-", "not a list"),
        ("3-1", "not a list"),
        ("0--1", "not a list"),
        ("0-9999999999", "not a list"),
    ],
)
def test_cores_that_are_not_there_are_refused(cores: str, seen: str) -> None:
    assert seen in refusal(cores=cores)


def test_a_long_list_of_cores_is_said_back_in_part() -> None:
    assert len(refusal(cores="0-65535")) < 300
    assert len(refusal(cores="0," * 1000)) < 300


@pytest.mark.parametrize(
    ("knobs", "prefix"),
    [
        ({}, ()),
        ({"cores": "0-7"}, ()),
        ({"cores": "0,5"}, ("/usr/bin/taskset", "--cpu-list", "0,5")),
        ({"cores": "physical"}, ("/usr/bin/taskset", "--cpu-list", "0,1,4,5")),
        (
            {"numa": "bind", "cores": "4-5"},
            ("/usr/bin/numactl", "--physcpubind=4,5", "--membind=1"),
        ),
        (
            {"numa": "interleave"},
            ("/usr/bin/numactl", "--physcpubind=0,1,2,3,4,5,6,7", "--interleave=0,1"),
        ),
    ],
)
def test_a_worker_is_placed(knobs: dict[str, Scalar], prefix: tuple[str, ...]) -> None:
    assert launch(**knobs).prefix == prefix


@pytest.mark.parametrize("numa", ["bind", "interleave"])
def test_on_one_node_memory_has_no_choice(numa: str) -> None:
    assert launch(ONE_NODE, numa=numa).prefix == ()
    assert launch(ONE_NODE, numa=numa, cores="1").prefix == ("/usr/bin/taskset", "--cpu-list", "1")


def test_what_is_not_installed_is_named_with_its_remedy() -> None:
    bare = replace(HOST, libraries={}, numactl=None, taskset=None)
    assert refusal(bare, numa="bind") == (
        "cannot start the worker: numactl is not installed. Run `apt-get install numactl`."
    )
    assert "taskset is not installed" in refusal(bare, cores="1")
    assert "libjemalloc.so.2 is not installed. Run `apt-get install" in refusal(
        bare, malloc="jemalloc"
    )
    assert "libtcmalloc_minimal.so.4 is not installed" in refusal(bare, malloc="tcmalloc")
    assert "libomp.so.5 is not installed" in refusal(bare, openmp="llvm")
    assert "libiomp5.so is not installed" in refusal(bare, openmp="intel")


@pytest.mark.parametrize(
    ("knobs", "variables"),
    [
        ({}, {}),
        ({"malloc": "glibc"}, {}),
        ({"malloc": "glibc-tuned"}, {"GLIBC_TUNABLES": TUNED}),
        ({"malloc": "glibc", "huge_pages": True}, {"GLIBC_TUNABLES": GLIBC_HUGE[0]}),
        (
            {"malloc": "glibc-tuned", "huge_pages": True},
            {"GLIBC_TUNABLES": f"{TUNED}:{GLIBC_HUGE[0]}"},
        ),
        (
            {"malloc": "jemalloc"},
            {
                "LD_PRELOAD": "/lib/libjemalloc.so.2",
                "MALLOC_CONF": "dirty_decay_ms:-1,muzzy_decay_ms:-1,oversize_threshold:0",
            },
        ),
        ({"malloc": "tcmalloc"}, {"LD_PRELOAD": "/lib/libtcmalloc_minimal.so.4"}),
        ({"openmp": "gnu"}, {}),
        ({"openmp": "intel"}, {"LD_PRELOAD": "/lib/libiomp5.so", "KMP_BLOCKTIME": "1"}),
        (
            {"malloc": "tcmalloc", "openmp": "llvm"},
            {
                "LD_PRELOAD": "/lib/libtcmalloc_minimal.so.4:/lib/libomp.so.5",
                "KMP_BLOCKTIME": "1",
            },
        ),
        ({"thread_binding": "none"}, {}),
        ({"thread_binding": "close"}, {"OMP_PROC_BIND": "close", "OMP_PLACES": "threads"}),
    ],
)
def test_settings_become_variables(knobs: dict[str, Scalar], variables: dict[str, str]) -> None:
    always = {"OMP_NUM_THREADS": "8", "PYTHONUNBUFFERED": "1"}
    always |= {"PYTHONSAFEPATH": "1", "PYTHONUTF8": "1"}
    always |= inductor_environ(HOST.cxx, HOST.inductor_cache)
    assert launch(**knobs).environ == always | variables


def test_jemalloc_asks_for_huge_pages_in_its_own_way() -> None:
    conf = launch(malloc="jemalloc", huge_pages=True).environ["MALLOC_CONF"]
    assert conf.endswith(",thp:always")


@pytest.mark.parametrize("malloc", ["glibc", "glibc-tuned", "jemalloc", "tcmalloc"])
def test_a_watched_worker_has_jemalloc_in_place_of_glibc(malloc: str) -> None:
    knobs: dict[str, Scalar] = {"threads": 2, "malloc": malloc}
    wanted = malloc if malloc == "tcmalloc" else "jemalloc"
    assert while_watched(knobs, HOST) == {"threads": 2, "malloc": wanted}
    assert while_watched(knobs, replace(HOST, libraries={})) == knobs


def test_huge_pages_that_cannot_be_had_are_refused() -> None:
    never = replace(HOST, huge_pages="never")
    assert "echo madvise > /sys/kernel/mm" in refusal(never, huge_pages=True)
    assert "not in this kernel" in refusal(replace(HOST, huge_pages=None), huge_pages=True)
    assert "tcmalloc" in refusal(malloc="tcmalloc", huge_pages=True)
    assert launch(never).environ


def test_onednn_leaves_amx_alone_where_it_is_unusable() -> None:
    assert "ONEDNN_MAX_CPU_ISA" not in launch().environ
    hollow = replace(HOST, isa_unusable=("amx_bf16", "amx_tile", "amx_int8"))
    assert launch(hollow).environ["ONEDNN_MAX_CPU_ISA"] == "AVX512_CORE_FP16"


def test_inductor_compiles_by_our_wrapper_into_the_user_s_own_cache() -> None:
    environ = launch().environ
    assert environ["CXX"] == str(WRAPPER)
    assert environ["BENCHFARM_CXX"] == "/usr/bin/g++"
    assert environ["TORCHINDUCTOR_CACHE_DIR"] == "/home/ann/.cache/benchfarm/inductor"
    without = launch(replace(HOST, cxx=None)).environ
    assert without.keys().isdisjoint({"CXX", "BENCHFARM_CXX"})


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
        "IPEX_VERBOSE",
        "OPENBLAS_NUM_THREADS",
        "MALLOC_ARENA_MAX",
        "MALLOC_CONF",
        "TCMALLOC_RELEASE_RATE",
        "GLIBC_TUNABLES",
        "LD_PRELOAD",
        "RAY_AUTH_TOKEN_PATH",
        "RAY_JOB_ID",
        "BENCHFARM_KERNELS",
        "LD_LIBRARY_PATH",
        "PYTHONPATH",
        "PYTHONSTARTUP",
        "AWS_SECRET_ACCESS_KEY",
        "PIP_INDEX_URL",
        "https_proxy",
        "X_OMP_",
    ],
)
def test_what_a_caller_has_set_is_not_inherited(name: str) -> None:
    environ = launch_of({name: "outside"}, PLAIN, SERVER, HOST).environ
    assert environ.get(name) != "outside"


def test_what_a_run_needs_is_inherited() -> None:
    inherited = {"PATH": "/bin", "HOME": "/root", "LC_ALL": "C", "BENCHFARM_HOME": "/x"}
    assert inherited.items() <= launch_of(inherited, PLAIN, SERVER, HOST).environ.items()
