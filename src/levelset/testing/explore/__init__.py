"""The explorer: runs a scenario many times, each with other crashes, lost responses, conflicts and stale caches."""

from levelset.testing.explore.call_site_coverage import Coverage, SiteCoverage
from levelset.testing.explore.exploration import Controllers, Exploration, Scenario
from levelset.testing.explore.html_report import write_html
from levelset.testing.explore.invariants import Invariant, Statement, always, eventually, finally_
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
    "Coverage",
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
    "SiteCoverage",
    "State",
    "Statement",
    "Step",
    "Trace",
    "always",
    "eventually",
    "explore",
    "finally_",
    "junit",
    "replay",
    "write_html",
]
