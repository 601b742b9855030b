"""The dashboard: a live web page with the served objects, the controllers and the reasons of their reconciles.

It is read-only and served on the loopback interface, to browsers that opened the printed URL with its token.
"""

from levelset.dashboard.access import AccessPolicy
from levelset.dashboard.app import Dashboard, dashboard
from levelset.dashboard.event_feed import EventFeed
from levelset.dashboard.queries import DashboardSource, Queries

__all__ = ["AccessPolicy", "Dashboard", "DashboardSource", "EventFeed", "Queries", "dashboard"]
