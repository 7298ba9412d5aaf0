"""A real Redis on a namespaced host, which keeps what it is told on that host's disk."""

from __future__ import annotations

import os
import shutil

import pytest

from tests.support.namespaced_hosts import HOME, REPOSITORY, Host, Program
from tests.support.waiting import eventually

UNPACKED = REPOSITORY / ".deps/redis"
"""Where `make test` puts the program."""
PORT = 6380
_CONFIG = """
bind 0.0.0.0
port {port}
dir {home}
appendonly yes
appendfsync always
save ""
requirepass {password}
"""


def serve_redis(host: Host, password: str) -> Program:
    """Start a server that any host can reach; skips the test if there is none."""
    path = f"{UNPACKED / 'usr/bin'}:{os.environ.get('PATH', os.defpath)}"
    program = shutil.which("redis-server", path=path)
    if not program:
        pytest.skip("redis-server not found; make test gets it")
    file = HOME / "redis.conf"
    host.path(file).write_text(_CONFIG.format(port=PORT, home=HOME, password=password))
    libraries = ":".join(map(str, (UNPACKED / "usr/lib").glob("*-linux-gnu")))
    server = host.start([program, str(file)], LD_LIBRARY_PATH=libraries)

    def ready() -> bool:
        assert server.entrance.poll() is None, server.log.read_text()
        return "Ready to accept connections" in server.log.read_text()

    eventually(ready, "the Redis server is ready")
    return server
