"""DCP: the programs, containers and services of a developer's machine as Kubernetes resources."""

from levelset_dcp.system import Options, dcp_system, laptop_system

__all__ = ["Options", "dcp_system", "laptop_system"]
