"""The explorer: runs a scenario many times, each with other crashes, lost responses, conflicts and stale caches."""

from typing import TYPE_CHECKING

from levelset.late_exports import late_exports

if TYPE_CHECKING:
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

# Late, since pytest imports the plugin, and with it this package, in every project that has levelset installed.
__getattr__, __dir__ = late_exports(
    __name__,
    {
        "levelset.testing.explore.exploration": "Controllers Exploration Scenario",
        "levelset.testing.explore.faults.plan": "Disturbance Plan",
        "levelset.testing.explore.judging.invariants": "Invariant Statement always eventually finally_",
        "levelset.testing.explore.recording_scenarios": "recorded_scenario",
        "levelset.testing.explore.records.run_result": "RULES Finding RunResult",
        "levelset.testing.explore.records.stored_state": "State",
        "levelset.testing.explore.records.trace": "Cause Step Trace",
        "levelset.testing.explore.reports.call_site_coverage": "Coverage SiteCoverage",
        "levelset.testing.explore.reports.html_report": "write_html",
        "levelset.testing.explore.reports.report": "Failure PlanResult Report junit",
        "levelset.testing.explore.search": "explore replay",
    },
)
