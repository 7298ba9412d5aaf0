"""Keys in Android's struct and signatures over tokens, against the cryptography library."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import struct
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import Prehashed

from agents.virtual_phone.auth import (
    KEY_STRUCT,
    TOKEN_BYTES,
    Gate,
    decode_public_key,
    encode_public_key,
    load_keys,
    parse_public_key,
    verifies,
)
from agents.virtual_phone.errors import PhoneOptionsInvalid

TOKEN = bytes(range(TOKEN_BYTES))


@pytest.fixture(scope="module")
def private() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def _sign(private: rsa.RSAPrivateKey, token: bytes) -> bytes:
    return private.sign(token, padding.PKCS1v15(), Prehashed(hashes.SHA1()))


def test_the_struct_holds_the_key(private: rsa.RSAPrivateKey) -> None:
    numbers = private.public_key().public_numbers()
    data = encode_public_key(private.public_key())
    words, n0inv = struct.unpack_from("<II", data)
    assert (len(data), words) == (524, 64)
    # The two helpers of Montgomery multiplication, by their definitions.
    assert (n0inv * numbers.n) % 2**32 == 2**32 - 1
    assert int.from_bytes(data[264:520], "little") == 2**4096 % numbers.n
    assert decode_public_key(data).public_numbers() == numbers


@pytest.mark.parametrize("at", [0, 4, 8, 100, 263, 264, 519, 520, 523])
def test_a_struct_that_contradicts_itself_is_no_key(private: rsa.RSAPrivateKey, at: int) -> None:
    data = bytearray(encode_public_key(private.public_key()))
    data[at] ^= 1
    with pytest.raises(ValueError, match=r"modulus|contradict|exponent"):
        decode_public_key(bytes(data))


def test_a_signature_is_the_keys_and_the_tokens(private: rsa.RSAPrivateKey) -> None:
    key, signature = private.public_key(), _sign(private, TOKEN)
    assert verifies(key, TOKEN, signature)
    assert not verifies(key, hashlib.sha1(TOKEN).digest(), signature)
    assert not verifies(key, TOKEN, signature[:-1] + bytes([signature[-1] ^ 1]))
    assert not verifies(key, TOKEN, b"")
    assert not verifies(key, TOKEN, b"\xff" * 4096)


def test_a_key_file_has_a_key_a_line(private: rsa.RSAPrivateKey, tmp_path: Path) -> None:
    line = base64.b64encode(encode_public_key(private.public_key())) + b" me@here"
    (tmp_path / "keys").write_bytes(line + b"\n\n" + line + b"\n")
    keys = load_keys(tmp_path / "keys")
    assert [key.public_numbers() for key in keys] == [private.public_key().public_numbers()] * 2
    assert parse_public_key(line + b"\0").public_numbers() == keys[0].public_numbers()


@pytest.mark.parametrize(
    "line", [b"", b"\0", b"!!! me", b"AAAA me", base64.b64encode(bytes(KEY_STRUCT.size))]
)
def test_what_is_no_key_is_refused(line: bytes, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"bytes instead|base64|exponent"):
        parse_public_key(line)
    (tmp_path / "keys").write_bytes(b"x" + line)
    with pytest.raises(PhoneOptionsInvalid, match=r"adbkey\.pub"):
        load_keys(tmp_path / "keys")


async def test_a_gate_learns_the_keys_its_user_allows(private: rsa.RSAPrivateKey) -> None:
    gate = Gate((), locked=True)
    assert not gate.knows(TOKEN, _sign(private, TOKEN))
    asking = asyncio.create_task(gate.ask(private.public_key()))
    await asyncio.sleep(0)
    assert gate.asking == 1
    gate.refusing = True
    assert gate.allow() == 0
    gate.refusing = False
    assert gate.allow() == 1
    await asking
    assert gate.knows(TOKEN, _sign(private, TOKEN))
    gate.refusing = True
    assert not gate.knows(TOKEN, _sign(private, TOKEN))
