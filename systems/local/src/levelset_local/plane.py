"""The data plane of one machine: every controller of it, around one node."""

from collections.abc import AsyncIterator, Sequence
from typing import Any

from levelset import Controller
from levelset.apiserver import Asked
from levelset_local.deployments import deployments_controller
from levelset_local.endpoints import endpoint_slices_controller, endpoints_controller
from levelset_local.jobs import jobs_controller
from levelset_local.node import Node, node_controller, pod_logs, pods_controller
from levelset_local.replicasets import replicasets_controller
from levelset_local.services import Proxies, services_controller

__all__ = ["Plane"]


class Plane:
    """Deployments, ReplicaSets, Jobs, Pods, EndpointSlices and Services of one node.

    Without `proxies` Services have addresses on which nobody listens. Whoever opens the node's runner and the proxies
    closes them, after the controllers have stopped.
    """

    def __init__(self, node: Node, proxies: Proxies | None = None) -> None:
        self.node = node
        self.proxies = proxies
        self._logs = pod_logs(node)

    @property
    def controllers(self) -> Sequence[Controller[Any]]:
        """All controllers, ready to be run."""
        made: list[Controller[Any]] = [
            deployments_controller(),
            replicasets_controller(),
            jobs_controller(),
            endpoint_slices_controller(),
            endpoints_controller(),
            node_controller(self.node),
            pods_controller(self.node),
        ]
        return made if self.proxies is None else [*made, services_controller(self.proxies)]

    async def pod_logs(self, asked: Asked) -> AsyncIterator[bytes]:
        """The log of a Pod's container, for the server's `log` subresource."""
        return await self._logs(asked)
