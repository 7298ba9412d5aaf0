"""`python -m agents.virtual_phone --profile NAME`: run a virtual phone until a signal comes.

Prints PhoneFacts as a JSON line when adb can connect to it (`adb connect 127.0.0.1:PORT`). With
--until-stdin-closes it is a helper: the line is its reply, and it ends with its caller.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from pathlib import Path

from agents.virtual_phone import launch, profiles
from agents.virtual_phone.auth import load_keys
from agents.virtual_phone.cores import choose_cores, parse_cores
from agents.virtual_phone.daemon import PhoneSetup
from agents.virtual_phone.emulation import emulator_for
from agents.virtual_phone.errors import PhoneOptionsInvalid
from agents.virtual_phone.faults import parse_fault
from controller.contracts.errors import UserError
from controller.platform.helper_main import Replies
from controller.platform.terminal import say


def main() -> int:
    """Start the phone; a UserError is one line, or a helper's reply, and exit status 2."""
    options = _options()
    try:
        setup = _setup(options)
        lifeline = options.until_stdin_closes
        return launch.run(setup, options.folder, options.port, until_stdin_closes=lifeline)
    except UserError as error:
        if options.until_stdin_closes:  # started by a process, which reads standard output
            Replies(sys.stdout).error(error)
        else:
            say(f"{error}", err=True)
        return 2


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m agents.virtual_phone")
    known = ", ".join(profiles.names())
    parser.add_argument("--profile", required=True, help=f"{known}, or a .yaml file")
    parser.add_argument("--serial", help="ro.serialno, instead of the profile's")
    parser.add_argument("--port", type=int, default=0, help="on 127.0.0.1 (default: a free one)")
    parser.add_argument("--folder", type=Path, help="for its log and control socket")
    parser.add_argument("--cores", help="host cores such as 0,2-3 (default: the first free)")
    parser.add_argument("--fault", action="append", default=[], help="kind or kind:key=value,…")
    keys = parser.add_mutually_exclusive_group()
    keys.add_argument(
        "--authorized-keys", type=Path, help="adb keys to let in (default: none, its user is asked)"
    )
    keys.add_argument("--any-key", action="store_true", help="let in every adb key; for tests")
    parser.add_argument("--until-stdin-closes", action="store_true", help="end with its starter")
    return parser.parse_args()


def _setup(options: argparse.Namespace) -> PhoneSetup:
    profile = profiles.load(options.profile)
    wanted = parse_cores(options.cores) if options.cores else None
    cores = choose_cores(wanted, profile.cpu.cores, os.sched_getaffinity(0))
    faults = (*map(parse_fault, options.fault), *profile.faults)
    keys = tuple(load_keys(options.authorized_keys)) if options.authorized_keys else ()
    if options.serial and not re.fullmatch(profiles.SERIAL, options.serial):
        remedy = "Write 1 to 64 of A-Z, a-z, 0-9, '_', '.' and '-'."
        raise PhoneOptionsInvalid(
            f"use --serial {options.serial!r}", "it is not a serial number", remedy
        )
    allowed = None if options.any_key else keys
    serial, emulator = options.serial or profile.serial, emulator_for(profile.abi)
    return PhoneSetup(profile, serial, cores, allowed, faults, emulator)


if __name__ == "__main__":
    sys.exit(main())
