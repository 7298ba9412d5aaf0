"""Prometheus's alerts as rules that Grafana evaluates, for users without an Alertmanager."""

from __future__ import annotations

import json

from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import alerting, expr, prometheus
from grafana_foundation_sdk.models.common import DataSourceRef

from controller.dashboards.board import Json
from controller.metrics.rules import ALERTS, Alert

FOLDER = "benchfarm"
"""Uid and title of the folder for our dashboards and alerts only."""
GROUP = "benchfarm"
EVERY_S = 60
_LOOK_BACK_S = 600
_EXPRESSIONS = DataSourceRef(type_val="__expr__", uid="__expr__")
"""Grafana's built-in data source, which computes on other queries."""
_IS_THERE = "is_number($A) || is_nan($A) || is_inf($A)"


def alert_group(source_uid: str) -> Json:
    """Return the group of rules, in the format of Grafana's provisioning interface."""
    group = alerting.RuleGroup(
        title=GROUP,
        folder_uid=FOLDER,
        interval=EVERY_S,
        rules=[_rule(alert, source_uid) for alert in ALERTS],
    )
    encoded: Json = json.loads(json.dumps(group, cls=JSONEncoder))
    return encoded


def _rule(alert: Alert, source_uid: str) -> alerting.Rule:
    """Return a rule that fires for every series of the expression, like Prometheus's.

    Grafana tests whether a number is above 0, but `up == 0` gives the number 0. So B is 1 for each
    series of A, and C fires on B; Grafana imports Prometheus's rules in the same way.
    """
    return alerting.Rule(
        title=alert.name,
        uid=f"benchfarm-{alert.name.lower()}",
        rule_group=GROUP,
        folder_uid=FOLDER,
        org_id=1,
        for_val=alert.wait,
        condition="C",
        no_data_state="OK",
        exec_err_state="Error",
        labels=alert.rule["labels"],
        annotations={
            name: text.replace("$value", "$values.A.Value")
            for name, text in alert.rule["annotations"].items()
        },
        data=[
            _asked(alert.expr, source_uid),
            _computed(expr.TypeMath(expression=_IS_THERE, ref_id="B", datasource=_EXPRESSIONS)),
            _computed(_over_0("B", "C")),
        ],
    )


def _asked(promql: str, source_uid: str) -> alerting.Query:
    source = DataSourceRef(type_val="prometheus", uid=source_uid)
    return alerting.Query(
        ref_id="A",
        datasource_uid=source_uid,
        relative_time_range=alerting.RelativeTimeRange(from_val=_LOOK_BACK_S, to=0),
        model=prometheus.Dataquery(
            ref_id="A", expr=promql, instant=True, range_val=False, datasource=source
        ),
    )


def _computed(model: expr.TypeMath | expr.TypeThreshold) -> alerting.Query:
    return alerting.Query(
        ref_id=model.ref_id,
        datasource_uid=_EXPRESSIONS.uid,
        relative_time_range=alerting.RelativeTimeRange(from_val=0, to=0),
        model=model,
    )


def _over_0(of: str, ref: str) -> expr.TypeThreshold:
    evaluator = expr.ExprTypeThresholdConditionsEvaluator(type_val="gt", params=[0])
    return expr.TypeThreshold(
        expression=of,
        ref_id=ref,
        datasource=_EXPRESSIONS,
        conditions=[expr.ExprTypeThresholdConditions(evaluator)],
    )
