"""Links between dashboards by their tag, and from a device's name to its dashboard."""

from __future__ import annotations

from grafana_foundation_sdk.builders.dashboard import DashboardLink
from grafana_foundation_sdk.models import dashboard

TAG = "benchfarm"
"""Tag of our dashboards only, by which the menu lists them."""

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
"""Link of a cell or a series with the name of a device."""


class MenuLink(DashboardLink):
    """A link in the bar above the panels."""

    def build(self) -> dashboard.DashboardLink:
        """Return the link; the SDK's own builder would hide it in the controls menu."""
        link = super().build()
        link.placement = None  # type: ignore[assignment]
        return link


def menu() -> MenuLink:
    """Return the menu of our dashboards; it keeps time range and variables."""
    link = MenuLink("benchfarm").type(dashboard.DashboardLinkType.DASHBOARDS).tags([TAG])
    return link.as_dropdown(True).include_vars(True).keep_time(True).icon("external link")
