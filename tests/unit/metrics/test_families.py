from __future__ import annotations

from controller.metrics import names
from controller.metrics.families import Gauge, gauge_text
from tests.support.exposition import openmetrics, plain

AWKWARD = 'a "quoted" \\ back\\n slash\nand a line, {braces} ü'
GAUGES = (
    Gauge(names.RUNS_QUEUED, [((), 3)]),
    Gauge(names.DEVICE_BATTERY, [((AWKWARD,), 0.1), (("phone-2",), 1e-7), (("phone-3",), True)]),
    Gauge(names.AGENT_UP, []),
)


def test_gauges_are_text_that_both_parsers_read_back() -> None:
    text = gauge_text(GAUGES)
    for found in (plain(text), openmetrics(f"{text}# EOF\n")):
        assert [f.name for f in found] == [str(g.metric) for g in GAUGES]
        assert [f.documentation for f in found] == [g.metric.help for g in GAUGES]
        assert {f.type for f in found} == {"gauge"}
        samples = [(s.labels, s.value) for f in found for s in f.samples]
        assert samples == [
            ({}, 3.0),
            ({"device": AWKWARD}, 0.1),
            ({"device": "phone-2"}, 1e-7),
            ({"device": "phone-3"}, 1.0),
        ]
