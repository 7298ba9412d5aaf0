"""What values mean: the words, colours and limits that several dashboards share."""

from __future__ import annotations

from controller.contracts.capability import Rank
from controller.dashboards.panels import Steps, Words

THERMAL: Words = {
    0: ("none", "green"),
    1: ("light", "yellow"),
    2: ("moderate", "orange"),
    3: ("severe", "red"),
    4: ("critical", "dark-red"),
    5: ("emergency", "dark-red"),
    6: ("shutdown", "dark-purple"),
}
"""Android's thermal status; from `moderate` on it throttles what runs."""

YES: Words = {1: ("yes", "blue")}
TARGET: Words = {0: ("reached", "green"), 1: ("missed", "red")}
CAPABILITY: Words = {
    Rank.FAILS: ("fails", "red"),
    Rank.FALLS_BACK: ("falls back", "orange"),
    Rank.WORKS: ("works", "green"),
}

CELSIUS: Steps = ((None, "green"), (60, "yellow"), (80, "orange"), (95, "red"))
"""Of processors: Intel's lie at 100 °C, phones slow down earlier."""
PHONE_CELSIUS: Steps = ((None, "green"), (38, "yellow"), (42, "orange"), (45, "red"))
"""Of phones: Android's own limits for batteries and skins lie around 45 °C."""
BATTERY: Steps = ((None, "red"), (0.2, "orange"), (0.5, "green"))
"""Preflight waits for charge long before a phone goes out."""
WAIT_S: Steps = ((None, "green"), (600, "yellow"), (3600, "red"))
NONE_IS_GOOD: Steps = ((None, "green"), (1, "red"))
SOME_IS_GOOD: Steps = ((None, "red"), (1, "green"))
FAILED: Steps = ((None, "green"), (0.05, "yellow"), (0.2, "red"))
