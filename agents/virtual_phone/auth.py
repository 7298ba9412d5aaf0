"""Authentication of hosts: RSA signatures over a random token, public keys in Android's format.

The format (AOSP libcrypto_utils/android_pubkey.c), 524 bytes, little endian: words in the modulus
(64), -1/n mod 2^32, the modulus n, 2^4096 mod n, the exponent. A key file holds one key a line: the
struct in base64, then a name.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import enum
import struct
from collections.abc import Iterable
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey, RSAPublicNumbers
from cryptography.hazmat.primitives.asymmetric.utils import Prehashed

from agents.virtual_phone.errors import PhoneOptionsInvalid

TOKEN_BYTES = 20
MODULUS_BYTES = 256
EXPONENTS = (3, 65537)
KEY_STRUCT = struct.Struct(f"<II{MODULUS_BYTES}s{MODULUS_BYTES}sI")
_WORD = 1 << 32


class AuthType(enum.IntEnum):
    """The first argument of an AUTH message."""

    TOKEN = 1
    SIGNATURE = 2
    RSA_PUBLIC_KEY = 3


def encode_public_key(key: RSAPublicKey) -> bytes:
    """Return a 2048-bit RSA key as Android's struct of 524 bytes."""
    numbers = key.public_numbers()
    return KEY_STRUCT.pack(
        MODULUS_BYTES // 4,
        (-pow(numbers.n, -1, _WORD)) % _WORD,
        numbers.n.to_bytes(MODULUS_BYTES, "little"),
        pow(2, 16 * MODULUS_BYTES, numbers.n).to_bytes(MODULUS_BYTES, "little"),
        numbers.e,
    )


def decode_public_key(data: bytes) -> RSAPublicKey:
    """Parse Android's struct; raises ValueError if it is not a consistent 2048-bit RSA key."""
    if len(data) != KEY_STRUCT.size:
        raise ValueError(f"a key of {len(data)} bytes instead of {KEY_STRUCT.size}")
    _, _, modulus_bytes, _, exponent = KEY_STRUCT.unpack(data)
    modulus = int.from_bytes(modulus_bytes, "little")
    if exponent not in EXPONENTS:
        raise ValueError(f"exponent {exponent}, which no adb key has")
    if modulus % 2 == 0 or modulus.bit_length() != 8 * MODULUS_BYTES:
        raise ValueError("the modulus is not an odd number of 2048 bits")
    key = RSAPublicNumbers(exponent, modulus).public_key()
    if encode_public_key(key) != data:
        raise ValueError("the fields contradict each other")
    return key


def parse_public_key(line: bytes) -> RSAPublicKey:
    """Parse a key as adb sends and stores it: base64, a space, a name; raises ValueError."""
    encoded = line.rstrip(b"\0").split(maxsplit=1)[:1]
    try:
        data = base64.b64decode(encoded[0] if encoded else b"", validate=True)
    except binascii.Error as error:
        raise ValueError(f"not base64: {error}") from error
    return decode_public_key(data)


def load_keys(path: Path) -> list[RSAPublicKey]:
    """Read an `adb_keys` file; raises PhoneOptionsInvalid."""
    try:
        return [parse_public_key(line) for line in path.read_bytes().splitlines() if line.strip()]
    except (OSError, ValueError) as error:
        raise PhoneOptionsInvalid(
            f"read the authorized keys {path}", str(error), "Give a file of lines as in adbkey.pub."
        ) from error


def verifies(key: RSAPublicKey, token: bytes, signature: bytes) -> bool:
    """Return whether the signature is the key's, over the token taken as a SHA-1 digest."""
    try:
        key.verify(signature, token, padding.PKCS1v15(), Prehashed(hashes.SHA1()))
    except InvalidSignature:
        return False
    return True


class Gate:
    """Admits hosts: those with a known key, and those that the phone's user allows."""

    def __init__(self, keys: Iterable[RSAPublicKey], *, locked: bool) -> None:
        self._keys = list(keys)
        self._asking: dict[asyncio.Future[None], RSAPublicKey] = {}
        self.locked = locked
        """Whether hosts must authenticate (`ro.adb.secure`)."""
        self.refusing = False
        """Whether the phone's user refuses every host, known or not."""

    def knows(self, token: bytes, signature: bytes) -> bool:
        """Return whether one of the known keys has signed the token."""
        return not self.refusing and any(verifies(k, token, signature) for k in self._keys)

    @property
    def asking(self) -> int:
        """The number of open questions."""
        return len(self._asking)

    async def ask(self, key: RSAPublicKey) -> None:
        """Ask "Allow USB debugging?"; return when it has been allowed."""
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._asking[answer] = key
        try:
            await answer
        finally:
            del self._asking[answer]

    def allow(self) -> int:
        """Allow every open question, permanently for its host; return their number."""
        if self.refusing:
            return 0
        for answer, key in self._asking.items():
            if not answer.done():
                self._keys.append(key)
                answer.set_result(None)
        return len(self._asking)
