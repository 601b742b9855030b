"""Breaks controllers on purpose: plays a scenario again and again with crashes, lost answers and stale reads."""

from levelset.testing.explore.exploration import Controllers, Exploration, Invariant, Scenario
from levelset.testing.explore.plans import Disturbance, Plan
from levelset.testing.explore.report import Failure, Report, Tried, junit
from levelset.testing.explore.run_result import RULES, Finding, Played
from levelset.testing.explore.search import explore, replay
from levelset.testing.explore.stored_state import State
from levelset.testing.explore.trace import Cause, Step, Trace

__all__ = [
    "RULES",
    "Cause",
    "Controllers",
    "Disturbance",
    "Exploration",
    "Failure",
    "Finding",
    "Invariant",
    "Plan",
    "Played",
    "Report",
    "Scenario",
    "State",
    "Step",
    "Trace",
    "Tried",
    "explore",
    "junit",
    "replay",
]
