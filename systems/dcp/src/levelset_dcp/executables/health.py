"""How healthy a workload is, from its state and from what its probes have found out."""

from collections.abc import Sequence

from levelset_dcp.kinds import ExecutableState, HealthProbe, HealthProbeResult, HealthStatus

__all__ = ["health_of", "probes_health"]


def health_of(
    state: ExecutableState,
    exit_code: int | None,
    probes: Sequence[HealthProbe],
    results: Sequence[HealthProbeResult],
) -> HealthStatus:
    """Whether all is well, something is wrong, or one cannot say."""
    if state == "Running":
        return probes_health([one.name for one in probes], results)
    if state == "FailedToStart" or (state == "Finished" and exit_code):
        return "Unhealthy"
    return "Caution"


def probes_health(names: Sequence[str], results: Sequence[HealthProbeResult]) -> HealthStatus:
    """One failure is enough; without any probe, what runs is healthy."""
    found = {one.probe_name: one.outcome for one in results}
    outcomes = [found.get(name) for name in names]
    outcomes += [outcome for name, outcome in found.items() if name.startswith("_")]
    if "Failure" in outcomes:
        return "Unhealthy"
    return "Healthy" if all(one == "Success" for one in outcomes) else "Caution"
