"""Thresholds, texts and colours that several dashboards share."""

from __future__ import annotations

from controller.contracts.capability import Rank
from controller.contracts.mobile import LEAST_AGREEMENT
from controller.dashboards.panels import Steps, Words
from controller.metrics import names

THERMAL: Words = {
    0: ("none", "green"),
    1: ("light", "yellow"),
    2: ("moderate", "orange"),
    3: ("severe", "red"),
    4: ("critical", "dark-red"),
    5: ("emergency", "dark-red"),
    6: ("shutdown", "dark-purple"),
}
"""Android's thermal status."""
THROTTLING = THERMAL[names.THROTTLES_FROM][0]
"""The status from which a phone counts as throttled."""

AGREEMENT: Steps = ((None, "red"), (LEAST_AGREEMENT, "text"))
YES: Words = {1: ("yes", "blue")}
TARGET: Words = {0: ("reached", "green"), 1: ("missed", "red")}
CAPABILITY: Words = {
    Rank.FAILS: ("fails", "red"),
    Rank.FALLS_BACK: ("falls back", "orange"),
    Rank.WORKS: ("works", "green"),
}

CELSIUS: Steps = ((None, "green"), (60, "yellow"), (80, "orange"), (95, "red"))
"""For processors: Intel's limits are near 100 °C, phones throttle earlier."""
PHONE_CELSIUS: Steps = ((None, "green"), (38, "yellow"), (42, "orange"), (45, "red"))
"""For phones: Android's limits for battery and skin are near 45 °C."""
BATTERY: Steps = ((None, "red"), (0.2, "orange"), (0.5, "green"))
"""Policies make a run wait long before a phone's battery is empty."""
WAIT_S: Steps = ((None, "green"), (600, "yellow"), (3600, "red"))
NONE_IS_GOOD: Steps = ((None, "green"), (1, "red"))
SOME_IS_GOOD: Steps = ((None, "red"), (1, "green"))
FAILED: Steps = ((None, "green"), (0.05, "yellow"), (0.2, "red"))
