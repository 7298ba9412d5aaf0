"""The set-up: two at once, a change meanwhile, an unpacking that fails."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
STUBS = """
. deploy/setup.sh
provide_packages() { python=$(find_python); write_env; }
create_venv() {
  echo created >>created.log
  rm -rf .venv && mkdir -p .venv/bin && ln -s "$python" .venv/bin/python
}
download_locked() { :; }
install_torch() { :; }
install_locked() { :; }
install() { :; }
verify() { :; }
build_kernels() { :; }
"""
PATIENCE_S = 60.0


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository with nothing but its set-up, in which nothing is installed."""
    shutil.copytree(ROOT / "deploy", tmp_path / "deploy", ignore=lambda _, n: _but_scripts(n))
    shutil.copy(ROOT / "Makefile", tmp_path)
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "requirements").mkdir()
    (tmp_path / "requirements/lock.txt").write_text("a==1\n")
    return tmp_path


def _but_scripts(names: list[str]) -> list[str]:
    return [name for name in names if not name.endswith(".sh")]


def start(root: Path, script: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        ["bash", "-c", f"{STUBS}{script}"],
        cwd=root,
        env={"PATH": f"{root / 'bin'}:{os.environ['PATH']}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def run(root: Path, script: str) -> subprocess.CompletedProcess[str]:
    process = start(root, script)
    said, _ = process.communicate(timeout=PATIENCE_S)
    return subprocess.CompletedProcess([], process.returncode, said)


def created(root: Path) -> int:
    return (root / "created.log").read_text().count("created")


def test_it_is_set_up_once_and_again_after_a_change(root: Path) -> None:
    for times, lock in ((1, "a==1\n"), (1, "a==1\n"), (2, "a==2\n"), (2, "a==2\n")):
        (root / "requirements/lock.txt").write_text(lock)
        assert run(root, "main").returncode == 0
        assert created(root) == times


def test_a_second_waits_for_the_first_and_has_nothing_left_to_do(root: Path) -> None:
    os.mkfifo(root / "go")
    first = start(root, "install_torch() { echo begun; read -r _ <go; }; main")
    assert first.stdout
    while first.stdout.readline() != "begun\n":
        assert first.poll() is None
    second = start(root, "create_venv() { fail cleared; }; main")
    assert second.stdout
    said = second.stdout.readline()
    (root / "go").write_text("\n")
    first.communicate(timeout=PATIENCE_S)
    rest, _ = second.communicate(timeout=PATIENCE_S)
    assert (said, rest) == ("setup: waiting for another setup in this folder\n", "")
    assert (first.returncode, second.returncode) == (0, 0)
    assert created(root) == 1


def test_with_a_valid_stamp_nothing_is_waited_for(root: Path) -> None:
    assert run(root, "main").returncode == 0
    with (root / ".deps/setup.lock").open("w") as file:
        subprocess.run(["flock", "--nonblock", str(file.fileno())], pass_fds=[file.fileno()])
        done = run(root, "main")
    assert (done.returncode, done.stdout) == (0, "")


def test_packages_for_tests_are_got_by_one_at_a_time(root: Path) -> None:
    assert run(root, "main").returncode == 0
    stubs = "has_packages_for_tests() { [[ -f got ]]; }; provide_packages_for_tests() { %s; }; "
    os.mkfifo(root / "go")
    first = start(root, stubs % "echo begun; read -r _ <go; touch got" + "main --for-tests")
    assert first.stdout
    assert first.stdout.readline() == "begun\n"
    second = start(root, stubs % "[[ -f got ]] && echo second" + "main --for-tests")
    assert second.stdout
    waits = second.stdout.readline()
    assert run(root, "main").stdout == "", "who needs no packages waits for none"
    (root / "go").write_text("\n")
    first.communicate(timeout=PATIENCE_S)
    assert second.communicate(timeout=PATIENCE_S)[0] == "second\n"
    assert waits == "setup: waiting for another setup in this folder\n"


def test_what_has_changed_meanwhile_is_installed_the_next_time(root: Path) -> None:
    assert run(root, "install_torch() { echo b==1 >>requirements/lock.txt; }; main").returncode == 0
    assert run(root, "main").returncode == 0
    assert created(root) == 2


def test_an_interrupted_lock_leaves_no_stamp(root: Path) -> None:
    assert run(root, "main").returncode == 0
    python = root / ".venv/bin/python"
    python.unlink()
    python.write_text('#!/bin/sh\ncase "$*" in *uninstall*) exit 1;; *) echo a==1;; esac\n')
    python.chmod(0o755)
    done = subprocess.run(["make", "lock"], cwd=root, capture_output=True, text=True)
    assert done.returncode != 0
    assert not (root / ".venv/.setup-stamp").exists()
    assert (root / "requirements/lock.txt").read_text() == "a==1\n"


def debian_package(root: Path, name: str, **files: str) -> Path:
    """Build a package with files in usr/bin."""
    tree = root / "trees" / name
    (tree / "DEBIAN").mkdir(parents=True)
    (tree / "DEBIAN").chmod(0o755)  # whatever the umask
    (tree / "usr/bin").mkdir(parents=True)
    for file, content in files.items():
        (tree / "usr/bin" / file).write_text(content)
    control = f"Package: {name}\nVersion: 1\nArchitecture: all\nMaintainer: a\nDescription: a\n"
    (tree / "DEBIAN/control").write_text(control)
    package = root / "index" / f"{name}.deb"
    package.parent.mkdir(exist_ok=True)
    command = ["dpkg-deb", "--root-owner-group", "--build", str(tree), str(package)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return package


def plant_apt(root: Path) -> None:
    """Put an apt-get into PATH that downloads from the folder `index`."""
    apt = root / "bin/apt-get"
    apt.parent.mkdir()
    apt.write_text(
        "#!/bin/sh\nwhile [ $1 != -qq ]; do shift; done; shift\n"
        f'for name; do cp {root}/index/"$name".deb . || exit; done\n'
    )
    apt.chmod(0o755)


def unpacked(root: Path) -> dict[str, str]:
    folder = root / ".deps/root/usr/bin"
    return {path.name: path.read_text() for path in folder.glob("*")}


def test_packages_are_unpacked_into_one_folder(root: Path) -> None:
    plant_apt(root)
    debian_package(root, "one", first="1", common="of one")
    debian_package(root, "two", second="2", common="of two")
    for name in ("one", "two"):
        assert run(root, f"unpack .deps/root {name}").returncode == 0
    assert unpacked(root) == {"first": "1", "second": "2", "common": "of two"}
    assert sorted(path.name for path in (root / ".deps").iterdir()) == ["root"]


def test_of_packages_that_cannot_all_be_unpacked_there_is_nothing(root: Path) -> None:
    plant_apt(root)
    debian_package(root, "one", first="1", common="of one")
    assert run(root, "unpack .deps/root one").returncode == 0
    debian_package(root, "three", third="3", common="of three")
    cut = debian_package(root, "two", second="2" * 100_000)
    cut.write_bytes(cut.read_bytes()[:-40])
    assert run(root, "unpack .deps/root three two").returncode != 0
    assert unpacked(root) == {"first": "1", "common": "of one"}
    debian_package(root / "again", "two", second="2")
    shutil.copy(root / "again/index/two.deb", cut)
    assert run(root, "unpack .deps/root three two").returncode == 0
    assert unpacked(root) == {"first": "1", "second": "2", "third": "3", "common": "of three"}


@pytest.mark.parametrize("name", ["plain", "with space", "José's"])
def test_make_reads_the_way_to_what_was_unpacked(root: Path, name: str) -> None:
    """With other letters than ASCII's, make's shell could not read what bash had quoted."""
    moved = root.rename(root.parent / name)
    programs = moved / ".deps/root/usr/bin"
    programs.mkdir(parents=True)
    (programs / "unpacked").write_text("#!/bin/sh\necho found\n")
    (programs / "unpacked").chmod(0o755)
    with (moved / "Makefile").open("a") as makefile:
        makefile.write("\nsaid:\n\t@. .deps/env && unpacked\n")
    assert run(moved, "write_env").returncode == 0
    environ = {"PATH": os.environ["PATH"], "LC_ALL": "C"}
    done = subprocess.run(
        ["make", "-s", "said"], cwd=moved, env=environ, capture_output=True, check=False, text=True
    )
    assert (done.stdout, done.stderr) == ("found\n", "")
