"""Rules for containers."""

from collections.abc import Iterator
from typing import Final

from levelset.errors import Cause
from levelset_dcp.checks.workloads import check_annotations, check_monitor, check_same, check_switches, invalid
from levelset_dcp.kinds import Container, ContainerNetwork, ContainerSpec

__all__ = ["check_container", "check_network", "container_mode_of"]

_IMMUTABLE: Final = (
    "image",
    "build",
    "container_name",
    "persistent",
    "mode",
    "monitor_pid",
    "monitor_timestamp",
    "labels",
    "health_probes",
    "pull_policy",
    "create_files",
    "pem_certificates",
    "image_layers",
    "terminal",
)


def container_mode_of(spec: ContainerSpec) -> str:
    """The mode that counts: `persistent: true` wins over `mode`."""
    return "persistent" if spec.persistent else spec.mode


def check_container(new: Container, old: Container | None) -> Iterator[Cause]:
    """Everything that is wrong with a Container."""
    spec = new.spec
    mode = container_mode_of(spec)
    yield from check_annotations(new.metadata.annotations)
    if not spec.image and spec.build is None and mode in ("session", "persistent"):
        yield Cause("spec.image", "FieldValueRequired", "an image is needed, or a build that makes one")
    if mode != "session" and not spec.container_name:
        yield Cause("spec.containerName", "FieldValueRequired", f"mode {mode} finds a container by its name")
    for number, secret in enumerate(spec.build.secrets if spec.build else ()):
        if secret.type == "file" and not secret.source:
            yield Cause(f"spec.build.secrets[{number}].source", "FieldValueRequired", "its file is needed")
    yield from check_monitor(spec, is_persistent=mode == "persistent")
    if old is not None:
        yield from check_switches(spec, old.spec)
        yield from check_same(spec, old.spec, _IMMUTABLE)
        if (spec.networks is None) != (old.spec.networks is None):
            yield invalid("spec.networks", "whether it is in networks of its own cannot be changed; make a new object")


def check_network(new: ContainerNetwork, old: ContainerNetwork | None) -> Iterator[Cause]:
    """Everything that is wrong with a ContainerNetwork."""
    mode = "persistent" if new.spec.persistent else new.spec.mode
    if mode != "session" and not new.spec.network_name:
        yield Cause("spec.networkName", "FieldValueRequired", f"mode {mode} finds a network by its name")
    if old is not None:
        yield from check_same(new.spec, old.spec, ("network_name", "ipv6", "mode", "persistent"))
