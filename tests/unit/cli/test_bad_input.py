"""Bad input is one clear line and exit status 2: never a traceback."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from controller.contracts.version import installed_version
from controller.runtime.home import Home
from controller.runtime.joining import sole_supervisor
from controller.store.sqlite import SqliteStore
from tests.support.command_line import benchfarm, complaint_of, installed

GOOD = b"name: x\nworkload: retinanet_resnext50\nstack: torch\nscenario: training\n"
COMPARE = ("compare", "torch", "torch:precision=bf16")
RETINANET = ("--workload", "retinanet_resnext50")
CONFIG = ("prometheus", "config", "unwritten")
BUILD = ("dashboards", "build", "-o", "unwritten")
NOT_UTF_8 = os.fsdecode(b"\xff")
PROFILED = ("profile", "run", "retinanet_resnext50", "--stack", "torch", "-o", "x")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((*COMPARE, *RETINANET), "no farm is up here. Run `benchfarm up`."),
        (
            (*COMPARE, "--workload", "retinanet"),
            "cannot use --workload 'retinanet': there is no such workload. Known: ",
        ),
        (
            (*COMPARE, *RETINANET, "--scenario", "kernel"),
            "workload retinanet_resnext50 does not run under it",
        ),
        (
            (*COMPARE, "--workload", "shapes_classifier"),
            "Add `--scenario` with one of these: single_stream, multi_stream, offline, server",
        ),
        ((*COMPARE, *RETINANET, "--knob", "steps"), "cannot use --knob: 'steps' is not KNOB=VALUE"),
        ((*COMPARE, *RETINANET, "--knob", "a=[1"), "neither a number, a word, true nor false"),
        ((*COMPARE, *RETINANET, "--knob", "colour=red"), "there is no knob 'colour'"),
        (
            (*COMPARE, *RETINANET, "--knob", "precision=fp32"),
            "it sets precision, which knobs sets too",
        ),
        (
            ("compare", "torch", "torch:", *RETINANET),
            "cannot use side B 'torch:': write `torch`, or `torch:KNOB=VALUE`",
        ),
        (("compare", "torch", "jax", *RETINANET), "key paired.b: there is no stack 'jax'"),
        (("compare", "torch", "litert", *RETINANET), "does not run on stack litert"),
        (
            (*COMPARE, "--workload", "kernels"),
            "key paired: scenario kernel does not compare two sides. Compare variants with `bench",
        ),
        (("results", "compare", "torch", "torch", *RETINANET), "nothing is stored yet"),
        (("sweep", "validate", "no/such.yaml"), "cannot read sweep no/such.yaml: No such file"),
        (("sweep", "validate", "."), "Is a directory"),
        (("sweep", "watch", "x"), "nothing is stored yet"),
        (("sweep", "status"), "nothing is stored yet"),
        (("results", "list"), "benchfarm up"),
        (("results", "report", "x"), "nothing is stored yet"),
        (("device", "list"), "nothing is stored yet"),
        (("sweep", "cancel", "x"), "no farm is up here. Run `benchfarm up`."),
        (("prometheus", "config", "x"), "no farm is up here. Run `benchfarm up`."),
        (("up", "--metrics-address", "0.0.0.0"), "cannot use --metrics-address 0.0.0.0"),
        (
            ("agent", "start", "--metrics-address", "a"),
            "cannot use --metrics-address a: it is no IP address",
        ),
        (("agent", "start"), "no farm is up here. Run `benchfarm up`."),
        (PROFILED, "nothing is stored yet. Start the farm with `benchfarm up`"),
        ((*PROFILED[:2], "shapes_classifier", *PROFILED[3:]), "does not run under 'training'"),
        (("profile", "show", "."), "cannot read profile .: profile.json: No such file"),
        (("up", "--listen", "0.0.0.0"), "cannot use --listen '0.0.0.0': nobody can connect"),
        (("up", "--redis", "127.0.0.1:1"), "--redis needs --listen"),
        (("up", "--listen", "127.0.0.1", "--redis", "127.0.0.1"), "cannot use --redis '127.0.0.1'"),
        (("up", "--phone-power-cycle", "no-such-hub x"), "there is no such program"),
        (("agent", "start", "--phone-power-cycle", "hub 'x"), "No closing quotation"),
        (("up", "--meter", "no-such-meter {device}"), "there is no such program"),
        (("agent", "start", "--meter", ""), "cannot use --meter '': it is empty"),
        (("agent", "start", "--head", "10.0.0.1"), "--head needs --token-file. Add --token-file."),
        (("agent", "start", "--no-cpu"), "--no-cpu needs --head and --token-file. Add"),
        (("agent", "start", "--label", "rack"), "cannot use --label 'rack': it is not KEY=VALUE"),
        (("up", "--label", "größe=1"), "cannot use --label 'größe=1': it is not KEY=VALUE"),
        (("up", "--label", "rack=b2\n"), r"cannot use --label 'rack=b2\n': it is not KEY=VALUE"),
        (("agent", "start", "--label", "rack\n=b2"), "it is not KEY=VALUE"),
        *(
            (command, "cores is a fact of devices, which no label may hide. Give the label another")
            for command in (
                ("up", "--label", "cores=64"),
                ("agent", "start", "--label", "cores=64"),
                ("device", "label", "x", "rack=b2", "cores=64"),
            )
        ),
        (("up", "--label", "kind=android"), "kind is a field of devices, which no label may hide"),
        (("up", "--label", f"rack={'b' * 201}"), "it is not KEY=VALUE"),
        (
            ("up", "--autoscaling-config", "absent"),
            "cannot use --autoscaling-config absent: there is",
        ),
        (("up", "--listen", "192.0.2.1"), "cannot use --listen 192.0.2.1:6379: "),
        (("up", "--prot"), "benchfarm: No such option: --prot"),
        (("device", "release"), "Missing argument 'device'; see: benchfarm device release --help"),
        (
            ("up", "--api-port", "x"),
            "Invalid value for '--api-port': 'x' is not a whole number; see: ",
        ),
        (("sweep", "validate", ""), "cannot read a sweep: the file's name is empty"),
        (
            (*CONFIG, "--controller", "nope"),
            "cannot use --controller 'nope': it is not a web address",
        ),
        ((*CONFIG, "--controller", "127.0.0.1:99999999"), "cannot use --controller '127.0.0.1:9"),
        ((*CONFIG, "--controller", "http://h:99999999"), "Port out of range"),
        (
            (*CONFIG, "--token-file", "token"),
            "cannot use --token-file token: it is a relative path",
        ),
        (
            (*BUILD, "--prometheus", "nope"),
            "cannot use --prometheus 'nope': it is not a web address",
        ),
        ((*BUILD, "--path", "here"), "cannot use --path 'here': it is a relative path"),
        (
            ("device", "maintain", "x", "--for", "-1h"),
            "cannot use --for '-1h': it is not a length of time. Write 30s,",
        ),
        (
            ("device", "reserve", "x", "--for", "1h", "--in", "-5m"),
            "cannot use --in '-5m': it is not a length of time. Write 30s, 90m, 2h or 3d.",
        ),
        (
            ("kernels", "bench", "nms", "--time-limit", "inf"),
            "'--time-limit': 'inf' is not a number of at most ",
        ),
        (
            ("kernels", "bench", "nms", "--width", "inf"),
            "'--width': 'inf' is not a number of at most 9",
        ),
        (
            ("bench", "compare", "--time-limit", "inf"),
            "'--time-limit': 'inf' is not a number of at most ",
        ),
        (
            ("bench", "compare", "--width", "inf"),
            "'--width': 'inf' is not a number of at most 9",
        ),
        (
            ("bench", "compare", "--width", "nan"),
            "'--width': 'nan' is not a number of at most 9",
        ),
        (
            ("device", "label", "x", "foo"),
            "cannot label x with 'foo': it is not KEY=VALUE. Write `rack=b2`",
        ),
    ],
)
def test_bad_call(arguments: tuple[str, ...], expected: str, tmp_path: Path) -> None:
    assert expected in complaint_of(tmp_path, *arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        ("device", "quarantine", NOT_UTF_8, "--why", "y"),
        ("sweep", "cancel", NOT_UTF_8),
        ("agent", "revoke", NOT_UTF_8),
        ("agent", "drain", NOT_UTF_8),
        ("results", "list", f"--sweep={NOT_UTF_8}"),
        ("up", "--label", f"rack={NOT_UTF_8}"),
    ],
)
def test_argument_that_is_not_utf_8(arguments: tuple[str, ...], tmp_path: Path) -> None:
    assert "xff': it is not UTF-8. Write it in UTF-8" in complaint_of(tmp_path, *arguments)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (
            ("machine", "peaks", "--stack", "jax"),
            "cannot use stack jax: no training stack has that name",
        ),
        (
            ("machine", "peaks", "--knob", "threads=x"),
            "cannot use --knob threads=x: its value is not allowed. Give a value of type int",
        ),
        (
            ("agent", "start", "--head", "10.0.0.1", "--token-file", "absent"),
            "cannot use --token-file absent: No such file",
        ),
    ],
)
def test_bad_call_that_another_process_sees(
    arguments: tuple[str, ...], expected: str, tmp_path: Path
) -> None:
    done = installed(tmp_path, *arguments)
    complaint = done.stderr.decode()
    assert (done.returncode, done.stdout) == (2, b""), complaint
    assert (expected in complaint, complaint.count("\n")) == (True, 1), complaint


@pytest.mark.parametrize("verb", [("list",), ("export", "unwritten")])
def test_results_of_a_sweep_that_there_is_not(verb: tuple[str, ...], tmp_path: Path) -> None:
    SqliteStore.open(tmp_path / "store.sqlite").close()
    said = complaint_of(tmp_path, "results", *verb, "--sweep", "nope")
    assert "cannot find sweep nope: there is no such sweep. Known: none yet." in said


@pytest.mark.parametrize(
    "verb", [("sweep", "status"), ("results", "list"), ("device", "list"), ("agent", "list")]
)
def test_store_of_a_farm_that_is_elsewhere(verb: tuple[str, ...], tmp_path: Path) -> None:
    said = complaint_of(tmp_path, *verb, BENCHFARM_URL="http://127.0.0.1:9464")
    assert "BENCHFARM_URL names the farm at http://127.0.0.1:9464. Run this on the head" in said


@pytest.mark.parametrize("verb", ["show", "report"])
@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"\xff\xfe", "profile.json: byte 0 is not UTF-8 text"),
        (b"{}", "profile.json: steps: it is missing; see"),
    ],
)
def test_profile_that_is_none(verb: str, content: bytes, expected: str, tmp_path: Path) -> None:
    (tmp_path / "profile.json").write_bytes(content)
    said = complaint_of(tmp_path, "profile", verb, str(tmp_path))
    assert expected.removesuffix("; see") in said
    assert "validation error" not in said


def test_dashboard_that_is_nested_too_deeply(tmp_path: Path) -> None:
    file = tmp_path / "board.json"
    file.write_text("[" * 200_000)
    said = complaint_of(tmp_path, "dashboards", "check", str(file))
    assert f"cannot read {file}: it is nested too deeply" in said


def test_binary_that_is_no_log_is_not_printed(tmp_path: Path) -> None:
    file = tmp_path / "log"
    file.write_bytes(bytes(range(128, 256)) * 4)
    assert len(complaint_of(tmp_path, "profile", "import", str(file))) < 400 + len(str(file))


def test_home_of_another_user(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.write_text("")
    said = complaint_of(home, "sweep", "cancel", "x")
    assert "controller.json: Not a directory. Set BENCHFARM_HOME to a folder" in said


def test_home_that_is_a_file(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.write_text("")
    assert "Set BENCHFARM_HOME to a folder" in complaint_of(home, "up")


def test_home_of_a_host_that_waits_for_the_head_of_another_farm(tmp_path: Path) -> None:
    with sole_supervisor(Home(tmp_path)):
        said = complaint_of(tmp_path, "up")
    assert f"cannot start a farm in {tmp_path}: this host has joined another farm, or waits" in said


def test_configuration_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    folder = str(tmp_path / "file" / "folder")
    said = complaint_of(tmp_path, "prometheus", "config", folder, "--controller", "http://x")
    assert f"cannot write {folder}: Not a directory" in said


def test_prometheus_that_is_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "Install Debian's package `prometheus`" in complaint_of(tmp_path, "up", "--prometheus")


def test_port_that_is_taken(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = complaint_of(tmp_path, "up", "--api-port", str(port))
    assert f"cannot use --api-port {port}: Address already in use" in said


@pytest.mark.parametrize("arguments", [("--version",), ("sweep", "--help"), ("completion", "bash")])
def test_standard_output_that_is_full(arguments: tuple[str, ...], tmp_path: Path) -> None:
    command = [str(Path(sys.executable).with_name("benchfarm")), *arguments]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, cwd=tmp_path)
    seen = b"cannot write standard output: No space left on device. Send it where there is room."
    assert (done.returncode, done.stderr) == (2, b"benchfarm: %s\n" % seen)


def test_release_is_told(tmp_path: Path) -> None:
    done = installed(tmp_path, "--version")
    assert done.stdout.decode() == f"benchfarm {installed_version()}\n"


def test_good_sweep_is_listed_with_its_defaults(tmp_path: Path) -> None:
    done = benchfarm(tmp_path, "sweep", "validate", "-", "--json", stdin=GOOD)
    assert done.returncode == 0
    assert b'"precision": "fp32"' in done.stdout


def test_down_without_a_farm_says_so(tmp_path: Path) -> None:
    done = benchfarm(tmp_path, "down")
    assert (done.returncode, b"no farm is up" in done.stdout) == (0, True)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--api", "10.0.0.5:8443", "--api-plain"), "others on the network can read tokens"),
        (("--api-plain",), "need --api"),
        (("--api-tls-cert", "x.pem"), "need --api"),
        (("--api", "127.0.0.1:1", "--api-tls-cert", "x.pem"), "belong together"),
        (
            ("--api", "127.0.0.1:1", "--api-plain", "--api-tls-key", "x.pem"),
            "--api-plain has no certificate",
        ),
    ],
)
def test_an_api_that_may_not_be_served_so_is_refused_before_a_farm_is_started(
    tmp_path: Path, options: tuple[str, ...], said: str
) -> None:
    assert said in complaint_of(tmp_path / "home", "up", *options)
    assert not (tmp_path / "home").exists()
