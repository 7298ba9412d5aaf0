"""Signatures by SSH keys, checked as a reader does, by ssh-keygen."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from controller.contracts.errors import UserError
from controller.platform.ssh_signature import NAMESPACE, fingerprint_of, sign


@pytest.fixture
def key(tmp_path: Path) -> Path:
    return made(tmp_path / "key")


def made(path: Path) -> Path:
    """Make a key without a passphrase; skips without OpenSSH."""
    if not shutil.which("ssh-keygen"):
        pytest.skip("openssh-client is not installed")
    command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", HOSTILE_COMMENT, "-f"]
    subprocess.run([*command, str(path)], check=True)
    return path


HOSTILE_COMMENT = "SHA256:" + "A" * 9 + " <script>"


def checked(content: Path, signature: Path, namespace: str = NAMESPACE) -> tuple[int, str]:
    """Return the exit status and the words of ssh-keygen on a signature."""
    command = ["ssh-keygen", "-Y", "check-novalidate", "-n", namespace, "-s", str(signature)]
    with content.open("rb") as file:
        done = subprocess.run(command, stdin=file, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def file_in(tmp_path: Path) -> Path:
    file = tmp_path / "SHA256SUMS"
    file.write_text("0  index.html\n")
    return file


def test_ssh_keygen_accepts_the_signature_and_names_the_key(tmp_path: Path, key: Path) -> None:
    file = file_in(tmp_path)
    status, said = checked(file, sign(file, key))
    assert status == 0, said
    assert fingerprint_of(key) in said
    assert len(fingerprint_of(key)) == len("SHA256:") + 43


def test_a_changed_file_has_no_good_signature(tmp_path: Path, key: Path) -> None:
    file = file_in(tmp_path)
    signature = sign(file, key)
    file.write_text("1  index.html\n")
    assert checked(file, signature)[0] != 0
    file.write_text("0  index.html\n")
    assert checked(file, signature)[0] == 0
    assert checked(file, signature, "git")[0] != 0


def test_a_public_key_of_another_beside_the_private_one_is_told(tmp_path: Path, key: Path) -> None:
    other = made(tmp_path / "other")
    key.with_suffix(".pub").write_text(other.with_suffix(".pub").read_text())
    file = file_in(tmp_path)
    with pytest.raises(UserError, match=r"another key's|doesn't match private"):
        sign(file, key)


@pytest.mark.parametrize("content", ["", "no key", None])
def test_what_is_no_key_is_refused(content: str | None, tmp_path: Path) -> None:
    path = tmp_path / "-key"
    if content is not None:
        path.write_text(content)
    with pytest.raises(UserError, match=r"cannot sign with .*-key: "):
        sign(file_in(tmp_path), path)
    assert [file.name for file in tmp_path.glob("*.sig")] == []


def test_a_key_that_others_can_read_is_refused(tmp_path: Path, key: Path) -> None:
    key.chmod(0o644)
    with pytest.raises(UserError, match="UNPROTECTED PRIVATE KEY FILE"):
        sign(file_in(tmp_path), key)


def test_without_openssh_the_package_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match="ssh-keygen is not installed"):
        sign(file_in(tmp_path), tmp_path / "key")
