"""What we use of Ray that it does not promise to keep: in one module, and still there."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from ray._private.gcs_utils import cleanup_redis_storage

ROOT = Path(__file__).parents[3]
PACKAGES = ("controller", "agents", "models", "kernels", "deploy")
PRIVATE = re.compile(r"\bray\.(_\w+|core\.generated|dashboard)\b|\bimport _raylet\b")
PRIVATE_OPTION = re.compile(r"\b_node_ip_address=")
"""Of `ray.init`: where a host has several addresses, a driver must have its node's."""


def modules_with(pattern: re.Pattern[str]) -> set[str]:
    return {
        str(path.relative_to(ROOT))
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        if pattern.search(path.read_text())
    }


def test_one_module_reaches_into_ray() -> None:
    assert modules_with(PRIVATE) == {"controller/runtime/redis.py"}


def test_one_private_option_is_given_where_a_driver_is_made() -> None:
    drivers = {"controller/runtime/cluster.py", "agents/__main__.py", "agents/joined.py"}
    assert modules_with(PRIVATE_OPTION) == drivers


def test_what_it_calls_there_takes_what_it_is_given() -> None:
    given = {"host", "port", "password", "use_ssl", "storage_namespace"}
    assert given <= set(inspect.signature(cleanup_redis_storage).parameters)
