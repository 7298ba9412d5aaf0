"""The Redis for Ray's tables of a farm's hosts, so that the hosts outlive their head.

Only Ray's GCS writes there. This module checks that it can, and deletes what it has left.
"""

from __future__ import annotations

import json
import socket
import subprocess
from pathlib import Path

from controller.contracts.base import Contract
from controller.contracts.errors import UserError
from controller.platform.private_files import read_private
from controller.platform.programs import python_code
from controller.runtime.addresses import Address

ANSWER_S = 3.0
MAX_LINE = 200
"""Bytes read of a response's first line; the server may not be a Redis."""
_FORGET = """
import json, sys
from ray._private.gcs_utils import cleanup_redis_storage
cleanup_redis_storage(**json.load(sys.stdin))
"""


class RedisServer(Contract):
    """A Redis server and the file of its password."""

    host: str
    port: int
    password_file: str | None

    @classmethod
    def parse(cls, text: str, password_file: Path | None) -> RedisServer:
        """Parse HOST:PORT; raises UserError, also for a file without a password."""
        address = Address.parse("--redis", text, port=None)
        file = str(password_file.absolute()) if password_file else None
        server = cls(host=address.host, port=address.port, password_file=file)
        server.password()
        return server

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    def password(self) -> str:
        """Return the password, "" if none was given; raises UserError."""
        if self.password_file is None:
            return ""
        tried = f"use --redis-password-file {self.password_file}"
        remedy = "Put the password of Redis into a file of yours that only you can read."
        if password := read_private(Path(self.password_file), tried, remedy):
            return password
        raise UserError(tried, "it is empty", remedy)

    def environment(self, namespace: str) -> dict[str, str]:
        """Return the variables that make a Ray head keep its tables there, under a namespace."""
        return {"RAY_REDIS_ADDRESS": str(self), "RAY_external_storage_namespace": namespace}

    def require_usable(self) -> None:
        """Raise UserError unless it answers with the password and only then."""
        tried = f"use --redis {self}"
        password = self.password()
        stranger = self._ask("PING")
        admitted = self._ask("AUTH", password) if password else stranger
        if stranger == "+PONG":
            seen = "it serves anyone who can reach it, without a password"
            remedy = "Set requirepass there: who can write to it has power over every host."
            raise UserError(tried, seen, remedy)
        if admitted != "+OK":
            seen = admitted.lstrip("-").partition(". ")[0] or "it is not a Redis"
            raise UserError(tried, seen, "Give its password with `--redis-password-file`.")

    def forget(self, namespace: str) -> None:
        """Delete Ray's tables of a farm that is down; raises UserError."""
        tried = f"delete Ray's tables in Redis at {self}"
        remedy = f"The farm is down; delete the keys `RAY{namespace}@*` there."
        try:
            self.require_usable()  # Ray would try for minutes
        except UserError as error:
            raise UserError(tried, error.seen, remedy) from error
        whose = {"host": self.host, "port": self.port, "password": self.password()}
        said = json.dumps({**whose, "use_ssl": False, "storage_namespace": namespace})
        # In a separate process, because Ray ends a process in which this fails, and prints
        # messages.
        done = subprocess.run(python_code(_FORGET), input=said, capture_output=True, text=True)
        if done.returncode != 0:
            raise UserError(tried, f"it exited with {done.returncode}", remedy)

    def _ask(self, *command: str) -> str:
        """Return the first line of the answer to a command; raises UserError."""
        words = [word.encode() for word in command]
        array = b"*%d\r\n" % len(words)  # as Redis reads it: RESP, an array of bulk strings
        asked = array + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)
        try:
            with (
                socket.create_connection((self.host, self.port), ANSWER_S) as connection,
                connection.makefile("rb") as answer,
            ):
                connection.sendall(asked)
                return answer.readline(MAX_LINE).decode(errors="replace").strip()
        except OSError as error:
            remedy = "Start a Redis there that this host can reach."
            seen = error.strerror or str(error)
            raise UserError(f"use --redis {self}", seen, remedy) from error
