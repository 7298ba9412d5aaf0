"""The API and its page beside a farm: a process of its own, started, looked after and ended with
the farm."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from controller.contracts.errors import UserError
from controller.platform.atomic import write_private
from controller.platform.inherited import inherited
from controller.platform.processes import FARM_MARKER, end_marked
from controller.platform.programs import python_module
from controller.runtime.addresses import Address
from controller.runtime.health import home_mark, is_listening, is_running, process_of
from controller.runtime.home import ApiProcess, Home

PROGRAM: Final = ("controller.cli.main", "api", "serve")
MARK: Final = "api"
START_S: Final = 60.0
LOOK_S: Final = 0.1
END_S: Final = 8.0
"""Longer than the server waits for requests under way."""
LINES_SHOWN: Final = 200
"""Characters of its log that are shown if it does not start."""


class ApiUnavailable(UserError):
    """An API that does not start beside the farm."""


@dataclass(frozen=True, slots=True)
class ApiBeside:
    """Where the API is served, and with which certificate; options of `benchfarm up`."""

    host: str
    port: int
    plain: bool = False
    """Without TLS."""
    certificate: str = ""
    key: str = ""
    """Paths of PEM files; empty for a certificate that is made at the first start."""

    @property
    def address(self) -> str:
        """HOST:PORT, or [IPv6]:PORT."""
        return str(Address(self.host, self.port))

    @property
    def url(self) -> str:
        """The address of the page."""
        return f"{'http' if self.plain else 'https'}://{self.address}/"

    @property
    def arguments(self) -> Iterator[str]:
        """The options of `benchfarm api serve`."""
        yield f"--listen={self.address}"
        if self.plain:
            yield "--plain"
        if self.certificate:
            yield f"--tls-cert={self.certificate}"
            yield f"--tls-key={self.key}"

    def certificate_in(self, home: Home) -> Path | None:
        """Return its certificate; None without TLS."""
        if self.plain:
            return None
        return Path(self.certificate) if self.certificate else home.path / "api-cert.pem"


def renewed_line(former: str) -> str:
    """Return what is said where a certificate of our own has been replaced; former: the
    fingerprint of the one before."""
    return (
        f"renewed      the certificate before (SHA-256 {former}) was not for this address, or had "
        "expired: whoever has logged in runs `benchfarm login` again"
    )


def running_api(home: Home) -> ApiProcess | None:
    """Return the API beside a farm; None if there is none that runs."""
    known = home.api_process()
    return known if known and is_running(known.process) else None


def have_api(home: Home, wanted: ApiBeside) -> subprocess.Popen[bytes] | None:
    """Serve the API as wanted beside a farm, unless it is; return its process if it was started.

    Raises ApiUnavailable, UserError.
    """
    arguments = (*wanted.arguments,)
    known = running_api(home)
    if known and known.arguments == arguments:
        return None
    end_marked(FARM_MARKER, home_mark(home, MARK), grace_s=END_S)
    Address(wanted.host, wanted.port).require_free("--api")
    log = home.logs / "api.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            python_module(*PROGRAM, *arguments),
            env={
                **inherited(os.environ),
                FARM_MARKER: home_mark(home, MARK),
                "BENCHFARM_HOME": str(home.path),
            },
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,  # a Ctrl-C of the caller must not reach it
        )
    try:
        _await_listening(process, wanted.address, log)
        served = ApiProcess(url=wanted.url, arguments=arguments, process=process_of(process.pid))
        write_private(home.api_file, served.model_dump_json())
    except BaseException:
        process.kill()
        process.wait()
        raise
    return process


def end_api(home: Home) -> int:
    """End the API beside a farm; return the number of its processes."""
    ended = end_marked(FARM_MARKER, home_mark(home, MARK), grace_s=END_S)
    home.api_file.unlink(missing_ok=True)
    return ended


def _await_listening(process: subprocess.Popen[bytes], address: str, log: Path) -> None:
    give_up = time.monotonic() + START_S
    while process.poll() is None and time.monotonic() < give_up:
        if is_listening(address):
            return
        time.sleep(LOOK_S)
    said = log.read_text(errors="replace").strip().splitlines()
    ended = process.returncode is not None
    seen = said[-1][-LINES_SHOWN:] if said else f"it exited with {process.returncode}"
    seen = seen if ended else f"it has not listened within {START_S:.0f} s"
    raise ApiUnavailable(f"serve the API on {address}", seen, f"See its output in {log}.")
