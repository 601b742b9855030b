"""The controllers and the node of a cluster on one machine: Deployments become processes, Services become ports.

`local_system()` is the whole system, for `levelset up`, `run` and `open_local`; `DataPlane` has the same controllers
for a node that the caller opens.
"""

from levelset_local.node import Images, Node
from levelset_local.system import DataPlane, Options, local_system

__all__ = ["DataPlane", "Images", "Node", "Options", "local_system"]
