"""A program `perf` that prints recorded output, counts nothing, and obeys `--control`."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path

NOT_SUPPORTED = ("<not supported>,,slots,0,100.00,,\n", "", 0)
"""What perf prints where the CPU shows no counters."""
SYSTEM_WIDE = ("", "top down event configuration requires system-wide mode (-a)\n", 234)
SAPPHIRE_RAPIDS = """\
# started on Thu Nov 26 12:00:00 2026

1000000,,slots,250000,100.00,,
300000,,topdown-retiring,250000,100.00,30.0,% Retiring
,,,,,4.0,% Heavy Operations
,,,,,26.0,% Light Operations
50000,,topdown-bad-spec,250000,100.00,5.0,% Bad Speculation
150000,,topdown-fe-bound,250000,100.00,15.0,% Frontend Bound
500000,,topdown-be-bound,250000,100.00,50.0,% Backend Bound
"""
ICE_LAKE = """\
# started on Thu Nov 26 12:00:00 2026

%  tma_retiring,%  tma_backend_bound,%  tma_frontend_bound,%  tma_bad_speculation,
 30.0,50.0,15.0,5.0,
"""
ZEN_4 = """\
# started on Thu Nov 26 12:00:00 2026

0,,ex_ret_ops,250000,100.00,24.0,%slots  retiring
0,,de_src_op_disp.all,250000,100.00,4.0,%slots  bad_speculation
0,,de_no_dispatch_per_slot.no_ops_from_frontend,250000,100.00,12.0,%slots  frontend_bound
0,,de_no_dispatch_per_slot.backend_stalls,250000,100.00,40.0,%slots  backend_bound
0,,de_no_dispatch_per_slot.smt_contention,250000,100.00,20.0,%slots  smt_contention
"""
_PROGRAM = """\
#!{python} -P
import json, os, pathlib, signal, sys
recorded = json.loads(pathlib.Path({recorded!r}).read_text())
args = sys.argv[1:]
form = " ".join(args[2:args.index("-o")])
out = pathlib.Path(args[args.index("-o") + 1])
printed, said, status = recorded.get(form, recorded["*"])
if status == 0 and "--control" in args:
    hears, answers = map(int, args[args.index("--control") + 1][3:].split(","))
    orders = []
    def end(*_):
        out.write_text(printed)
        with open({log!r}, "a") as log:
            print(json.dumps([out.stem, *orders]), file=log)
        os._exit(0)
    signal.signal(signal.SIGINT, end)
    while order := os.read(hears, 64):
        orders.append(order.decode().strip())
        os.write(answers, b"ack\\n\\0")
    signal.pause()
out.write_text(printed)
sys.stderr.write(said)
sys.exit(status)
"""
Recorded = tuple[str, str, int]
"""What is written to perf's file, to its standard error, and its exit status."""


def fake_perf(
    folder: Path, recorded: Mapping[str, Recorded], otherwise: Recorded = NOT_SUPPORTED
) -> Path:
    """Write a `perf` into a folder; return where it logs sessions: name and orders of each.

    recorded: for each form of arguments between `-x,` and `-o`, what is printed.
    """
    told, log = folder / "recorded.json", folder / "sessions.log"
    told.write_text(json.dumps({**recorded, "*": otherwise}))
    program = folder / "perf"
    program.write_text(_PROGRAM.format(python=sys.executable, recorded=str(told), log=str(log)))
    program.chmod(0o755)
    return log
