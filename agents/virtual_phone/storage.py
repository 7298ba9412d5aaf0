"""Changes of a phone's storage: the daemon, which has no privilege, asks process 1."""

from __future__ import annotations

import os
import socket
import struct
from dataclasses import dataclass

from agents.virtual_phone import filesystem

_REQUEST = struct.Struct("<??Q")
_ANSWER = struct.Struct("<i")


@dataclass(frozen=True, slots=True)
class Storage:
    """The daemon's end of the link."""

    link: socket.socket

    def change(self, *, read_only: bool, no_exec: bool, size_bytes: int) -> None:
        """Allow or forbid writing and executing in /data/local/tmp, and limit its size; raises
        OSError."""
        self.link.sendall(_REQUEST.pack(read_only, no_exec, size_bytes))
        (number,) = _ANSWER.unpack(self.link.recv(_ANSWER.size))
        if number:
            raise OSError(number, os.strerror(number))


def serve(link: socket.socket) -> None:
    """Answer the daemon's requests until it ends; process 1's end."""
    while request := link.recv(_REQUEST.size):
        read_only, no_exec, size_bytes = _REQUEST.unpack(request)
        number = 0
        try:
            filesystem.restrict_tmp(read_only=read_only, no_exec=no_exec)
            filesystem.limit_storage(size_bytes)
        except OSError as error:
            number = error.errno or 1
        link.sendall(_ANSWER.pack(number))


def pair() -> tuple[socket.socket, socket.socket]:
    """Return both ends of a link."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
