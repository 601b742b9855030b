"""Breaks controllers on purpose: plays a scenario again and again with crashes, lost answers and stale reads."""

from levelset.exploring.exploration import Controllers, Exploration, Invariant, Scenario
from levelset.exploring.findings import RULES, Finding, Played
from levelset.exploring.plans import Disturbance, Plan
from levelset.exploring.reports import Failure, Report, Tried, junit
from levelset.exploring.search import explore, replay
from levelset.exploring.states import State
from levelset.exploring.traces import Cause, Step, Trace

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
