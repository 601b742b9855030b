"""The probes of an Executable as checks and paces; pure."""

import re
from collections.abc import Mapping
from typing import Final

from levelset_dcp.kinds import HealthProbe
from levelset_dcp.templates import Scene, evaluate
from levelset_machine import Check, Command, ExecCheck, HttpCheck, Pace

__all__ = ["check_of", "pace_of", "seconds_of"]

_PART: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)")
_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_TIMEOUT: Final = 10.0
_LEAST: Final = 0.1


def seconds_of(span: str) -> float:
    """A span of time such as `1m30s`, in seconds."""
    return sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(span))


def pace_of(probe: HealthProbe) -> Pace:
    """How often the probe is made: every verdict counts."""
    schedule = probe.schedule
    return Pace(
        initial_delay=seconds_of(schedule.initial_delay or ""),
        period=max(_LEAST, seconds_of(schedule.interval)),
        timeout=seconds_of(schedule.timeout or "") or _TIMEOUT,
        failure_threshold=1,
        until_success=schedule.kind == "UntilSuccess",
    )


def check_of(probe: HealthProbe, scene: Scene, env: Mapping[str, str]) -> Check:
    """What is asked, with all templates evaluated; raises NotYet while one has to wait."""
    if probe.http_probe is not None:
        headers = tuple((one.name, evaluate(one.value, scene)) for one in probe.http_probe.headers)
        return HttpCheck(evaluate(probe.http_probe.url, scene), headers)
    program = probe.executable_probe
    assert program is not None, "the schema has a probe be one of the two"
    own = {one.name: evaluate(one.value, scene) for one in program.env}
    argv = (program.executable_path, *(evaluate(one, scene) for one in program.args))
    return ExecCheck(Command(argv=argv, env={**env, **own}, cwd=program.working_directory or None))
