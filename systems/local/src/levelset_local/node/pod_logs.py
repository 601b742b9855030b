"""The `log` subresource of Pods: the log of a container's current or previous run, with the errors of a kubelet."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

from levelset import NotFound, decode, encode
from levelset.apiserver import LogRequest
from levelset.errors import BadRequest
from levelset.kinds.core_v1 import ContainerStatus, Pod
from levelset_local.node.node import Node, log_key
from levelset_machine import LogOptions

__all__ = ["choose_container", "pod_logs"]

_OPTIONS: Final = ("follow", "tailLines", "limitBytes", "sinceSeconds", "sinceTime", "timestamps")


def pod_logs(node: Node) -> Callable[[LogRequest], Awaitable[AsyncIterator[bytes]]]:
    """A function that reads the logs of a node's Pods; it raises BadRequest with the messages of Kubernetes."""

    async def read(request: LogRequest) -> AsyncIterator[bytes]:
        pod = decode(Pod, encode(request.tree))
        container = choose_container(pod, request.query.get("container"))
        wanted = {name: value for name, value in request.query.items() if name in _OPTIONS}
        options = LogOptions.of_query(wanted, now=node.runner.now())
        key = _key(node, pod, container, is_previous=_is_true(request.query.get("previous")))
        return node.logs.read(key, options)

    return read


def choose_container(pod: Pod, name: str | None) -> str:
    """The container whose log is requested; raises BadRequest if it does not exist, or if the choice is ambiguous."""
    main = [one.name for one in pod.spec.containers]
    init = [one.name for one in pod.spec.init_containers]
    if name:
        if name not in (*main, *init):
            raise BadRequest(f"container {name} is not valid for pod {pod.name}")
        return name
    if len(main) == 1 and not init:
        return main[0]
    others = f" or one of the init containers: [{' '.join(init)}]" if init else ""
    raise BadRequest(
        f"a container name must be specified for pod {pod.name}, choose one of: [{' '.join(main)}]{others}"
    )


def _key(node: Node, pod: Pod, container: str, *, is_previous: bool) -> str:
    """The key of the log; raises BadRequest or NotFound if there is none."""
    if not pod.spec.node_name:
        raise BadRequest(f"pod {pod.name} does not have a host assigned")
    uid, status = pod.metadata.uid, _status(pod, container)
    record = node.records.find(uid)
    reported = 0 if status is None else status.restart_count
    restarts = reported if record is None else record.container(container).restarts
    key = log_key(uid, container, restarts - 1 if is_previous else restarts)
    if node.logs.has(key):
        return key
    if is_previous:
        raise BadRequest(f'previous terminated container "{container}" in pod "{pod.name}" not found')
    reason = _waits_for(status)
    if reason:
        raise BadRequest(f'container "{container}" in pod "{pod.name}" is waiting to start: {reason}')
    raise NotFound(f'the log of container "{container}" in pod "{pod.name}" has been removed')


def _status(pod: Pod, container: str) -> ContainerStatus | None:
    if pod.status is None:
        return None
    found = (*pod.status.container_statuses, *pod.status.init_container_statuses)
    return next((one for one in found if one.name == container), None)


def _waits_for(status: ContainerStatus | None) -> str:
    """The reason why a container has not started; empty if it has."""
    if status is None:
        return "ContainerCreating"
    waiting = status.state.waiting
    return "" if waiting is None else waiting.reason or "ContainerCreating"


def _is_true(text: str | None) -> bool:
    return text is not None and text.lower() not in ("0", "false", "f")
