"""What a change of a Pod's status means to people, as Events."""

from collections.abc import Iterator

from levelset.kinds.core_v1 import Container, Pod, PodStatus
from levelset_local.node.known import News

__all__ = ["ignored_wishes", "status_news"]


def status_news(pod: Pod, before: PodStatus | None, after: PodStatus) -> Iterator[News]:
    """The warnings that follow from how the waiting of a Pod's containers has changed."""
    told = _waiting(before)
    for name, (reason, message) in _waiting(after).items():
        if told.get(name) == (reason, message):
            continue
        if reason == "CrashLoopBackOff":
            place = f"{pod.name}_{pod.namespace}({pod.metadata.uid})"
            yield News(reason="BackOff", message=f"Back-off restarting failed container {name} in pod {place}")
        elif reason not in ("ContainerCreating", "PodInitializing"):
            yield News(reason="Failed", message=f"Error: {reason}: {message}" if message else f"Error: {reason}")
    was_failed = before is not None and before.phase == "Failed"
    if after.phase == "Failed" and after.reason and not was_failed:
        yield News(reason=after.reason, message=after.message or after.reason)


def _waiting(status: PodStatus | None) -> dict[str, tuple[str, str]]:
    if status is None:
        return {}
    found = (*status.init_container_statuses, *status.container_statuses)
    waits = ((one.name, one.state.waiting) for one in found)
    return {name: (wait.reason or "", wait.message or "") for name, wait in waits if wait is not None}


def ignored_wishes(pod: Pod) -> str:
    """What a Pod asks of a scheduler that means nothing where there is one node; empty if it asks for nothing."""
    spec = pod.spec
    asked = {
        "nodeSelector": bool(spec.node_selector),
        "affinity": spec.affinity is not None,
        "topologySpreadConstraints": bool(spec.topology_spread_constraints),
        "hostPort": any(port.host_port for one in _containers(pod) for port in one.ports),
    }
    return ", ".join(name for name, is_asked in asked.items() if is_asked)


def _containers(pod: Pod) -> tuple[Container, ...]:
    return (*pod.spec.init_containers, *pod.spec.containers)
