"""The explorer: runs a scenario many times, each with other crashes, lost responses, conflicts and stale caches."""

from levelset.testing.explore.exploration import Controllers, Exploration, Scenario
from levelset.testing.explore.faults.plan import Disturbance, Plan
from levelset.testing.explore.judging.invariants import Invariant, Statement, always, eventually, finally_
from levelset.testing.explore.recording_scenarios import recorded_scenario
from levelset.testing.explore.records.run_result import RULES, Finding, RunResult
from levelset.testing.explore.records.stored_state import State
from levelset.testing.explore.records.trace import Cause, Step, Trace
from levelset.testing.explore.reports.call_site_coverage import Coverage, SiteCoverage
from levelset.testing.explore.reports.html_report import write_html
from levelset.testing.explore.reports.report import Failure, PlanResult, Report, junit
from levelset.testing.explore.search import explore, replay

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
    "recorded_scenario",
    "replay",
    "write_html",
]
