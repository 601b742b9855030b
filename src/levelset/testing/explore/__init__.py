"""The explorer: runs a scenario many times, each with other crashes, lost responses, conflicts and stale caches."""

from levelset.testing.explore.exploration import Controllers, Exploration, Invariant, Scenario
from levelset.testing.explore.plans import Disturbance, Plan
from levelset.testing.explore.report import Failure, PlanResult, Report, junit
from levelset.testing.explore.run_result import RULES, Finding, RunResult
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
    "PlanResult",
    "Report",
    "RunResult",
    "Scenario",
    "State",
    "Step",
    "Trace",
    "explore",
    "junit",
    "replay",
]
