"""The areas and scenarios of the conformance kit that are not fulfilled, each with its reason.

An area is skipped: its scenarios are not run. A listed scenario is run and must differ from the recording; when it
passes, its test fails until the line is removed here.
"""

__all__ = ["AREAS", "SCENARIOS"]

AREAS: dict[str, str] = {}

SCENARIOS: dict[str, dict[str, str]] = {}
