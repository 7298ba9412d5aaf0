"""A page that draws panels with Grafana's own components, from npm; and the frames it is given."""

from __future__ import annotations

import re
import shutil
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from controller.runtime.prometheus import Series

Json = dict[str, Any]
SOURCE = Path(__file__).parents[1] / "grafana_panels"
BUILT = Path(__file__).parents[2] / ".deps" / "grafana_panels"
INSTALL = ("npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")


def built_page() -> Path:
    """Return the folder of the page, made anew if its sources have changed; skips without npm."""
    if shutil.which("npm") is None:
        pytest.skip("npm is missing; get it with: apt-get install npm")
    is_new = not (BUILT / "page.js").is_file()
    if is_new or not all(_same(source, BUILT / source.name) for source in SOURCE.iterdir()):
        shutil.copytree(SOURCE, BUILT, dirs_exist_ok=True)
        subprocess.run(INSTALL, cwd=BUILT, check=True)
        subprocess.run(("npm", "run", "--silent", "bundle"), cwd=BUILT, check=True)
    return BUILT


def _same(source: Path, copy: Path) -> bool:
    return copy.is_file() and copy.read_bytes() == source.read_bytes()


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Print nothing."""


@contextmanager
def page_address() -> Iterator[str]:
    """Serve the page on loopback: Grafana's components need an origin with local storage."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(built_page())))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def frames_of(target: Mapping[str, Any], series: Sequence[Series], *, alone: bool) -> list[Json]:
    """Return the frames that Grafana's Prometheus data source makes of an answer of now.

    alone: whether the panel has no other query, which names the column of a table's values.
    """
    if target["format"] != "table":
        return [_one_series(target, one) for one in series]
    labels = sorted({name for one in series for name in one["metric"]})
    columns = [
        _field("Time", "time", [float(one["value"][0]) * 1e3 for one in series]),
        *(_field(n, "string", [one["metric"].get(n, "") for one in series]) for n in labels),
        _field("Value" if alone else f"Value #{target['refId']}", "number", _numbers(series)),
    ]
    return [{"refId": target["refId"], "fields": columns}]


def _one_series(target: Mapping[str, Any], series: Series) -> Json:
    time = _field("Time", "time", [float(series["value"][0]) * 1e3])
    value = _field("Value", "number", _numbers([series])) | {"labels": series["metric"]}
    legend = str(target["legendFormat"])
    if legend != "__auto":
        name = re.sub(r"{{(\w+)}}", lambda it: series["metric"].get(it[1], ""), legend)
        value["config"] = {"displayNameFromDS": name}
    return {"refId": target["refId"], "fields": [time, value]}


def _field(name: str, kind: str, values: Sequence[object]) -> Json:
    return {"name": name, "type": kind, "values": list(values), "config": {}}


def _numbers(series: Sequence[Series]) -> list[float]:
    return [float(one["value"][1]) for one in series]
