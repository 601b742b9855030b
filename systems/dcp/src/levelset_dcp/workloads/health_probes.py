"""Health probes of workloads: checks, schedules, results and the health that follows from them; pure."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from levelset_dcp.kinds import HealthProbe, HealthProbeResult, HealthStatus
from levelset_dcp.workloads.templates import TemplateContext, evaluate
from levelset_machine import Check, Command, ExecCheck, HttpCheck, ProbeSchedule

__all__ = ["is_new_result", "parse_duration", "probe_check", "probe_schedule", "probes_health", "with_result"]

_PART: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ns|us|µs|ms|s|m|h)")
_UNITS: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_TIMEOUT: Final = 10.0
_LEAST: Final = 0.1


def parse_duration(span: str) -> float:
    """Parses a duration such as `1m30s` to seconds."""
    return sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(span))


def probe_schedule(probe: HealthProbe) -> ProbeSchedule:
    """The schedule of a probe; a single failure counts."""
    schedule = probe.schedule
    return ProbeSchedule(
        initial_delay=parse_duration(schedule.initial_delay or ""),
        period=max(_LEAST, parse_duration(schedule.interval)),
        timeout=parse_duration(schedule.timeout or "") or _TIMEOUT,
        failure_threshold=1,
        until_success=schedule.kind == "UntilSuccess",
    )


def probe_check(probe: HealthProbe, context: TemplateContext, env: Mapping[str, str]) -> Check:
    """The check of a probe with its templates evaluated; raises DependencyNotReady."""
    if probe.http_probe is not None:
        headers = tuple((one.name, evaluate(one.value, context)) for one in probe.http_probe.headers)
        return HttpCheck(evaluate(probe.http_probe.url, context), headers)
    assert probe.executable_probe is not None, "the schema requires one of the two"
    program = probe.executable_probe.executable_template.spec
    own = {one.name: evaluate(one.value, context) for one in program.env}
    inherited = env if program.ambient_environment.behavior == "Inherit" else dict[str, str]()
    argv = (program.executable_path, *(evaluate(one, context) for one in program.args))
    return ExecCheck(Command(argv=argv, env={**inherited, **own}, cwd=program.working_directory or None))


def probes_health(names: Sequence[str], results: Sequence[HealthProbeResult]) -> HealthStatus:
    """The health of a running workload: one failed probe makes it Unhealthy; without probes it is Healthy."""
    found = {one.probe_name: one.outcome for one in results}
    outcomes = [found.get(name) for name in names]
    outcomes += [outcome for name, outcome in found.items() if name.startswith("_")]
    if "Failure" in outcomes:
        return "Unhealthy"
    return "Healthy" if all(one == "Success" for one in outcomes) else "Caution"


def is_new_result(results: Sequence[HealthProbeResult], result: HealthProbeResult) -> bool:
    """Whether the outcome or the reason of a probe has changed; the timestamp does not count."""
    known = next((one for one in results if one.probe_name == result.probe_name), None)
    return known is None or (known.outcome, known.reason) != (result.outcome, result.reason)


def with_result(
    results: Sequence[HealthProbeResult], result: HealthProbeResult
) -> tuple[HealthProbeResult, ...] | None:
    """The results with a new one; None if it is not new."""
    if not is_new_result(results, result):
        return None
    others = [one for one in results if one.probe_name != result.probe_name]
    return tuple(sorted([*others, result], key=lambda one: one.probe_name))
