"""What a cluster's controllers and its nodes do, on one machine: Deployments become processes, Services become ports.

`local_system()` is all of it, for `levelset up`, `run` and `open_local`; `Plane` is the same put together by hand.
"""

from levelset_local.node import Images, Node
from levelset_local.plane import Plane
from levelset_local.system import Options, local_system

__all__ = ["Images", "Node", "Options", "Plane", "local_system"]
