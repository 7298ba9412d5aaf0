"""Traces with a GPU: what is left out is named, waiting is no work, and threads are not a step."""

from __future__ import annotations

import pytest

from controller.profiles.importing import import_file
from controller.profiles.model import Profile
from controller.profiles.waiting import is_wait
from controller.reports.profile_lines import op_lines, tables_of
from controller.reports.profile_tables import summary_lines
from tests.support.gpu_trace import (
    ITEM_US,
    KERNELS_A_STEP,
    STEP_US,
    STEPS,
    SYNC_US,
    write_gpu_trace,
)


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Profile:
    return import_file(write_gpu_trace(tmp_path_factory.mktemp("gpu") / "trace.json"))


def test_what_is_left_out_is_named_and_counted(imported: Profile) -> None:
    summary = imported.summary
    assert summary.left_out == {
        "kernel": STEPS * KERNELS_A_STEP,
        "gpu_memcpy": STEPS,
        "gpu_user_annotation": STEPS,
        # Launches, and one copy that doesn't wait: their time is that of the ops that call them.
        "cuda_runtime": STEPS * (KERNELS_A_STEP + 1),
    }
    (note,) = summary.notes
    assert note.startswith("left out of trace.json, which is read for what ran on CPUs: 82 cuda_r")
    assert f"{STEPS * KERNELS_A_STEP} kernel, " in note
    assert summary.skipped == 0


def test_waiting_is_no_work(imported: Profile) -> None:
    summary = imported.summary
    assert summary.steps == STEPS
    assert summary.traced_step_s == pytest.approx(STEP_US * 1e-6)
    assert summary.waiting_s == pytest.approx((SYNC_US + ITEM_US) * 1e-6)
    ops = {line.key: line.seconds for line in op_lines(imported).lines}
    assert ops["(waiting)", "cudaDeviceSynchronize", ""] == pytest.approx(SYNC_US * 1e-6)
    assert ops["(waiting)", "cudaStreamSynchronize", ""] == pytest.approx(ITEM_US * 1e-6)
    assert ops["aten::item", "aten::_local_scalar_dense", ""] == pytest.approx(60e-6)
    # Of one thread: autograd's is the one with most.
    assert summary.explained == pytest.approx(0.5)
    assert "waiting: 7.5 ms a step, sum over 2 threads, which is no work" in summary_lines(summary)


def test_a_sum_over_threads_is_called_one(imported: Profile) -> None:
    assert imported.summary.op_threads == 2
    total = sum(line.seconds for line in op_lines(imported).lines)
    assert total > STEP_US * 1e-6
    assert tables_of(imported)
    assert all("a step, sum over 2 threads" in found.title for found in tables_of(imported))


@pytest.mark.parametrize(
    ("category", "name", "waits"),
    [
        ("cuda_runtime", "cudaStreamSynchronize", True),
        ("cuda_runtime", "cudaDeviceSynchronize", True),
        ("cuda_runtime", "cudaEventSynchronize", True),
        ("cuda_driver", "cuCtxSynchronize", True),
        ("cuda_runtime", "hipStreamSynchronize", True),
        ("cuda_runtime", "hipMemcpyWithStream", True),
        ("cuda_runtime", "cudaMemcpy", True),
        ("xpu_runtime", "urQueueFinish", True),
        ("cuda_runtime", "cudaMemcpyAsync", False),
        ("cuda_runtime", "cudaMemcpy2DAsync", False),
        ("cuda_runtime", "cudaLaunchKernel", False),
        ("cuda_runtime", "cudaStreamWaitEvent", False),
        ("python_function", "<built-in function sleep>", True),
        ("python_function", "<built-in method acquire of _thread.lock object at 0x7f00>", True),
        ("python_function", "<built-in method poll of select.poll object at 0x7f00>", True),
        ("python_function", "<built-in method waiting_list of Queue object at 0x7f00>", False),
        ("python_function", "threading.py(327): wait", False),
        ("cpu_op", "cudaStreamSynchronize", False),
        ("kernel", "cudaDeviceSynchronize", False),
    ],
)
def test_calls_that_wait_are_known(category: str, name: str, waits: bool) -> None:
    assert is_wait(category, name) is waits
