"""The dashboard: a live web page with the served objects, the controllers and the reasons of their reconciles.

It is served on the loopback interface, to browsers that opened the printed URL with its token, and read-only unless
actions are switched on.
"""

from levelset.dashboard.access import AccessPolicy
from levelset.dashboard.app import Dashboard, dashboard, open_dashboard
from levelset.dashboard.event_feed import EventFeed
from levelset.dashboard.queries import DashboardSource, Queries
from levelset.dashboard.recorded_runs import RecordedRuns

__all__ = [
    "AccessPolicy",
    "Dashboard",
    "DashboardSource",
    "EventFeed",
    "Queries",
    "RecordedRuns",
    "dashboard",
    "open_dashboard",
]
