"""Panels of the fleet's dashboard, as Prometheus's own tool evaluates their queries."""

from __future__ import annotations

import json
from pathlib import Path

from controller.dashboards.files import built_dashboards
from controller.dashboards.queries import questions_of
from tests.support.prometheus import promtool

AGENTS = {"up": 1, "down": 0, "drained": 0, "revoked": 0}


def test_an_agent_on_hold_is_not_counted_as_down(tmp_path: Path) -> None:
    """One that was revoked stayed red for ever."""
    (asked,) = (it for it in questions_of(built_dashboards()[0]) if " / Agents down / " in it.place)
    series = [(f'benchfarm_agent_up{{agent="{name}"}}', up) for name, up in AGENTS.items()]
    series += [
        (f'benchfarm_agent_hold{{agent="{name}", hold="{name}"}}', 1)
        for name in ("drained", "revoked")
    ]
    planted = [{"series": name, "values": f"{value}x4"} for name, value in series]
    expected = {"expr": asked.promql, "eval_time": "1m", "exp_samples": [{"value": 1}]}
    test = {"interval": "1m", "input_series": planted, "promql_expr_test": [expected]}
    file = tmp_path / "fleet.yml"
    file.write_text(json.dumps({"evaluation_interval": "1m", "tests": [test]}))
    done = promtool("test", "rules", str(file))
    assert done.returncode == 0, done.stdout + done.stderr
