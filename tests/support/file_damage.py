"""Random damage of a small file that is read back: of its bytes, and of what its JSON says."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from typing import Any

Damage = Callable[[random.Random, bytes], bytes]

VALUES: tuple[Any, ...] = (
    *(None, True, -1, 0, 10**30, 1e308, 0.5, "", "text", "\x00", "\x1b[2J", "a" * 5000),
    *([], {}, [1], {"a": 1}, [[[]]], "../../../etc/passwd", "\ud800"),
)


def flip_bits(chance: random.Random, data: bytes) -> bytes:
    """Flip one to four bits."""
    changed = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        changed[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def truncate(chance: random.Random, data: bytes) -> bytes:
    """Cut the end off, or all there is."""
    return data[: chance.randrange(len(data))]


def zero(chance: random.Random, data: bytes) -> bytes:
    """Overwrite a part with zeros, as a file system does that lost a block."""
    begin = chance.randrange(len(data))
    length = chance.randint(1, len(data) - begin)
    return data[:begin] + bytes(length) + data[begin + length :]


def not_utf8(chance: random.Random, data: bytes) -> bytes:
    """Put in what is no UTF-8."""
    at = chance.randrange(len(data))
    return data[:at] + b"\xff\xfe\xc3" + data[at:]


def long_number(chance: random.Random, data: bytes) -> bytes:
    """Put a number of thousands of digits somewhere."""
    at = chance.randrange(len(data))
    return data[:at] + b"9" * chance.choice([30, 400, 5000]) + data[at:]


def nested(chance: random.Random, data: bytes) -> bytes:
    """Put in what is nested beyond any reader's stack."""
    at = chance.randrange(len(data))
    return data[:at] + chance.choice([b"[", b'{"a":']) * 50_000 + data[at:]


def doubled(chance: random.Random, data: bytes) -> bytes:
    """Let a part be there twice, and so perhaps a key."""
    begin = chance.randrange(len(data))
    end = chance.randint(begin, len(data))
    return data[:end] + data[begin:end] + data[end:]


def twice_the_key(chance: random.Random, data: bytes) -> bytes:
    """Give the first key of JSON twice, well formed; else put the file behind itself."""
    begin, end = data.find(b"{"), data.find(b",")
    if begin < 0 or end < begin:
        return data + data
    return data[: begin + 1] + data[begin + 1 : end + 1] + data[begin + 1 :]


def other_value(chance: random.Random, data: bytes) -> bytes:
    """Let one of the values of JSON be another; of no JSON, all of it."""
    value = chance.choice(VALUES)
    try:
        document, _ = json.JSONDecoder().raw_decode(data.decode(errors="surrogateescape"))
    except ValueError:
        return json.dumps(value).encode()
    places = list(_places(document))
    if not places:
        return json.dumps(value).encode()
    holder, key = chance.choice(places)
    holder[key] = value
    return json.dumps(document).encode()


def _places(value: Any) -> Iterator[tuple[Any, Any]]:  # noqa: ANN401 - any JSON
    keys = value if isinstance(value, dict) else range(len(value) if isinstance(value, list) else 0)
    for key in keys:
        yield value, key
        yield from _places(value[key])


DAMAGES: tuple[Damage, ...] = (
    *(flip_bits, truncate, zero, not_utf8, long_number, nested, doubled, twice_the_key),
    other_value,
)
