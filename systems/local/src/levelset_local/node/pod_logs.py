"""What `kubectl logs` shows: the log of a container's run, this one or the one before; and Kubernetes' words if not."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

from levelset import BadRequest, NotFound, decode, encode
from levelset.apiserver import Asked
from levelset.kinds.core_v1 import ContainerStatus, Pod
from levelset_local.node.agent import Node, log_key
from levelset_machine import LogOptions

__all__ = ["choose_container", "pod_logs"]

_OPTIONS: Final = ("follow", "tailLines", "limitBytes", "sinceSeconds", "sinceTime", "timestamps")


def pod_logs(node: Node) -> Callable[[Asked], Awaitable[AsyncIterator[bytes]]]:
    """The source of the logs of the Pods that run on a node; it raises BadRequest in Kubernetes' words."""

    async def read(asked: Asked) -> AsyncIterator[bytes]:
        pod = decode(Pod, encode(asked.tree))
        container = choose_container(pod, asked.query.get("container"))
        wanted = {name: value for name, value in asked.query.items() if name in _OPTIONS}
        options = LogOptions.of_query(wanted, now=node.runner.now())
        key = _key(node, pod, container, is_previous=_is_true(asked.query.get("previous")))
        return node.logs.read(key, options)

    return read


def choose_container(pod: Pod, asked: str | None) -> str:
    """The container whose log is meant; BadRequest if there is no such, or several and none is named."""
    main = [one.name for one in pod.spec.containers]
    init = [one.name for one in pod.spec.init_containers]
    if asked:
        if asked not in (*main, *init):
            raise BadRequest(f"container {asked} is not valid for pod {pod.name}")
        return asked
    if len(main) == 1 and not init:
        return main[0]
    others = f" or one of the init containers: [{' '.join(init)}]" if init else ""
    raise BadRequest(
        f"a container name must be specified for pod {pod.name}, choose one of: [{' '.join(main)}]{others}"
    )


def _key(node: Node, pod: Pod, container: str, *, is_previous: bool) -> str:
    """The key of the log; BadRequest if there is none."""
    if not pod.spec.node_name:
        raise BadRequest(f"pod {pod.name} does not have a host assigned")
    uid, status = pod.metadata.uid, _status(pod, container)
    known = node.records.find(uid)
    reported = 0 if status is None else status.restart_count
    restarts = reported if known is None else known.container(container).restarts
    key = log_key(uid, container, restarts - 1 if is_previous else restarts)
    if node.logs.has(key):
        return key
    if is_previous:
        raise BadRequest(f'previous terminated container "{container}" in pod "{pod.name}" not found')
    reason = _waits_for(status)
    if reason:
        raise BadRequest(f'container "{container}" in pod "{pod.name}" is waiting to start: {reason}')
    raise NotFound(f'the log of container "{container}" in pod "{pod.name}" is not there any more')


def _status(pod: Pod, container: str) -> ContainerStatus | None:
    if pod.status is None:
        return None
    found = (*pod.status.container_statuses, *pod.status.init_container_statuses)
    return next((one for one in found if one.name == container), None)


def _waits_for(status: ContainerStatus | None) -> str:
    """Why a container has not started; empty if it has."""
    if status is None:
        return "ContainerCreating"
    waiting = status.state.waiting
    return "" if waiting is None else waiting.reason or "ContainerCreating"


def _is_true(text: str | None) -> bool:
    return text is not None and text.lower() not in ("0", "false", "f")
