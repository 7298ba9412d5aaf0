"""Where dashboards lead: to each other by their tag, and from a device's name to its dashboard."""

from __future__ import annotations

from grafana_foundation_sdk.builders.dashboard import DashboardLink
from grafana_foundation_sdk.models import dashboard

TAG = "benchfarm"
"""Carried by our dashboards only; the menu lists them by it."""

FLEET = "benchfarm-fleet"
COMPARE = "benchfarm-compare"
DEVICE = "benchfarm-device"
SWEEP = "benchfarm-sweep"
TRAINING = "benchfarm-training"
MOBILE = "benchfarm-mobile"

DEVICE_LINK = {
    "title": "Open this device",
    "url": f"/d/{DEVICE}?var-device=${{__value.raw}}&${{__url_time_range}}",
    "targetBlank": False,
}
"""On a cell or a series that holds the name of a device."""


class MenuLink(DashboardLink):
    """A link in the bar above the panels."""

    def build(self) -> dashboard.DashboardLink:
        """Return it; the SDK itself would hide it in the menu of the controls."""
        link = super().build()
        link.placement = None  # type: ignore[assignment]
        return link


def menu() -> MenuLink:
    """Return the menu of our dashboards; time range and variables go along."""
    link = MenuLink("benchfarm").type(dashboard.DashboardLinkType.DASHBOARDS).tags([TAG])
    return link.as_dropdown(True).include_vars(True).keep_time(True).icon("external link")
