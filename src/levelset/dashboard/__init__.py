"""A page to look at the loop: what is served, who looks at it and why, told in the browser as it changes.

It is read-only, for whoever has the address that is printed, on this machine only.
"""

from levelset.dashboard.access import Access
from levelset.dashboard.app import Dashboard, dashboard
from levelset.dashboard.event_feed import Feed
from levelset.dashboard.queries import Reader, Sight

__all__ = ["Access", "Dashboard", "Feed", "Reader", "Sight", "dashboard"]
