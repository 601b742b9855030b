"""Lifecycle modes of workloads and networks: whether they are created, adopted, and removed with their object."""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from levelset_dcp.kinds import (
    ContainerNetworkSpec,
    ContainerSpec,
    ExecutableSpec,
)

__all__ = [
    "MODE_POLICIES",
    "ModePolicy",
    "container_mode",
    "container_policy",
    "executable_mode",
    "executable_policy",
    "network_policy",
]


class ModePolicy(Struct, frozen=True):
    """What a lifecycle mode means."""

    creates: bool
    """Whether a missing resource is created or started."""
    adopts: bool
    """Whether an existing resource, e.g. of an earlier session, is adopted."""
    removes: bool
    """Whether the resource is removed with its object and with the session."""


MODE_POLICIES: Final[Mapping[str, ModePolicy]] = {
    "session": ModePolicy(creates=True, adopts=False, removes=True),
    "persistent": ModePolicy(creates=True, adopts=True, removes=False),
    "existing": ModePolicy(creates=False, adopts=True, removes=False),
    "cleanup": ModePolicy(creates=False, adopts=True, removes=True),
}
"""The policies of all modes; Executables have no `existing`."""


def executable_mode(spec: ExecutableSpec) -> str:
    """The effective mode: `persistent: true` wins over `mode`."""
    return "persistent" if spec.persistent else spec.mode


def container_mode(spec: ContainerSpec) -> str:
    """The effective mode: `persistent: true` wins over `mode`."""
    return "persistent" if spec.persistent else spec.mode


def executable_policy(spec: ExecutableSpec) -> ModePolicy:
    """The policy of an Executable's mode."""
    return MODE_POLICIES[executable_mode(spec)]


def container_policy(spec: ContainerSpec) -> ModePolicy:
    """The policy of a Container's mode."""
    return MODE_POLICIES[container_mode(spec)]


def network_policy(spec: ContainerNetworkSpec) -> ModePolicy:
    """The policy of a network's mode; `persistent: true` wins."""
    return MODE_POLICIES["persistent" if spec.persistent else spec.mode]
