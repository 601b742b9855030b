"""The rules of Container, ContainerNetwork and ContainerNetworkTunnelProxy."""

import base64
import re
from collections.abc import Iterator, Sequence
from typing import Final

from levelset.errors import Cause, LevelsetError
from levelset.objects import from_tree
from levelset_dcp.admission.common import (
    check_annotations,
    check_monitor,
    check_probes,
    check_same,
    check_switches,
    invalid,
    required,
)
from levelset_dcp.containers.file_archive import DEEPEST_DIRECTORY, is_file_name
from levelset_dcp.kinds import (
    Container,
    ContainerCertificates,
    ContainerExec,
    ContainerNetwork,
    ContainerNetworkTunnelProxy,
    ContainerSpec,
    FileEntry,
    FileSet,
    ImageLayer,
)
from levelset_dcp.workloads.modes import container_mode

__all__ = ["check_container", "check_exec", "check_files", "check_network", "check_tunnel_proxy"]

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
_SHA256: Final = re.compile("(?i:sha256:)?[0-9a-fA-F]{64}")
_TYPE_BITS: Final = 0x8F28_0000
"""The bits of Go's `fs.ModeType`: modes and umasks with them are no permissions."""


def check_container(new: Container, old: Container | None) -> Iterator[Cause]:
    """Validates a Container."""
    spec = new.spec
    mode = container_mode(spec)
    yield from check_annotations(new.metadata.annotations)
    yield from _check_image(spec, mode)
    if mode != "session" and not spec.container_name:
        yield required("spec.containerName", f"is required by mode {mode}")
    if mode != "session" and spec.terminal is not None:
        yield invalid("spec.terminal", f"mode {mode} does not support a terminal")
    yield from check_probes(spec.health_probes)
    yield from check_files(spec.create_files)
    yield from _check_layers(spec.image_layers)
    if spec.pem_certificates is not None:
        yield from _check_certificates(spec.pem_certificates)
    yield from check_monitor(spec, is_persistent=mode == "persistent")
    if old is not None:
        yield from check_switches(spec, old.spec)
        yield from check_same(spec, old.spec, _IMMUTABLE)
        if (spec.networks is None) != (old.spec.networks is None):
            yield invalid("spec.networks", "cannot be added or removed as a whole; create a new object")


def _check_image(spec: ContainerSpec, mode: str) -> Iterator[Cause]:
    if not spec.image and spec.build is None and mode in ("session", "persistent"):
        yield required("spec.image", "an image or spec.build is required")
    if any(one.isspace() for one in spec.image):
        yield invalid("spec.image", "must not contain white space")
    for number, secret in enumerate(spec.build.secrets if spec.build else ()):
        if secret.type == "file" and not secret.source:
            yield required(f"spec.build.secrets[{number}].source", "the path of the secret is required")


def check_files(sets: Sequence[FileSet]) -> Iterator[Cause]:
    """Validates files that are created in a container; no entry can be written outside its destination."""
    for number, one in enumerate(sets):
        field = f"spec.createFiles[{number}]"
        if one.destination and not one.destination.startswith("/"):
            yield invalid(f"{field}.destination", "an absolute path is expected")
        if one.umask is not None and one.umask & _TYPE_BITS:
            yield invalid(f"{field}.umask", "must have no type bits")
        for inner, entry in enumerate(one.entries):
            yield from _check_entry(entry, f"{field}.entries[{inner}]", depth=0)


def _check_entry(entry: FileEntry, field: str, *, depth: int) -> Iterator[Cause]:
    if not is_file_name(entry.name):
        yield invalid(f"{field}.name", "a name without a path is expected")
    if (entry.mode or 0) & _TYPE_BITS:
        yield invalid(f"{field}.mode", "must have no type bits")
    contents = {"source": entry.source, "contents": entry.contents, "rawContents": entry.raw_contents}
    given = [name for name, value in contents.items() if value]
    if entry.type != "directory":
        for name in given[1:]:
            yield invalid(f"{field}.{name}", f"only one of {', '.join(contents)} is expected, and {given[0]} is given")
        if entry.entries:
            yield invalid(f"{field}.entries", "only a directory has entries")
        return
    for name in given:
        yield invalid(f"{field}.{name}", f"a directory has no {name}")
    if depth == DEEPEST_DIRECTORY:
        yield invalid(f"{field}.entries", f"directories are nested more than {DEEPEST_DIRECTORY} deep")
        return
    for number, tree in enumerate(entry.entries):
        inner = f"{field}.entries[{number}]"
        try:
            decoded = from_tree(FileEntry, tree)
        except LevelsetError as error:
            yield invalid(inner, str(error))
        else:
            yield from _check_entry(decoded, inner, depth=depth + 1)


def _check_layers(layers: Sequence[ImageLayer]) -> Iterator[Cause]:
    for number, one in enumerate(layers):
        field = f"spec.imageLayers[{number}]"
        if not one.source and not one.raw_contents:
            yield required(field, "source or rawContents is required")
        if one.source and one.raw_contents:
            yield invalid(f"{field}.rawContents", "only one of source and rawContents is expected")
        if one.source and not one.sha256:
            yield required(f"{field}.sha256", "is required with source")
        if one.sha256 and not one.source:
            yield invalid(f"{field}.sha256", "is only for source")
        if one.sha256 and not _SHA256.fullmatch(one.sha256):
            yield invalid(f"{field}.sha256", "64 hexadecimal digits are expected, with or without the prefix sha256:")
        if one.raw_contents and not _is_base64(one.raw_contents):
            yield invalid(f"{field}.rawContents", "base64 is expected")


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except ValueError:
        return False
    return True


def _check_certificates(certificates: ContainerCertificates) -> Iterator[Cause]:
    if certificates.destination and not certificates.destination.startswith("/"):
        yield invalid("spec.pemCertificates.destination", "an absolute path is expected")
    for number, one in enumerate(certificates.overwrite_bundle_paths):
        if not one.startswith("/"):
            yield invalid(f"spec.pemCertificates.overwriteBundlePaths[{number}]", "an absolute path is expected")


def check_exec(new: ContainerExec, old: ContainerExec | None) -> Iterator[Cause]:
    """Validates a ContainerExec."""
    yield from check_annotations(new.metadata.annotations)
    if old is not None:
        yield from check_same(new.spec, old.spec, new.spec.__struct_fields__)


def check_network(new: ContainerNetwork, old: ContainerNetwork | None) -> Iterator[Cause]:
    """Validates a ContainerNetwork."""
    mode = "persistent" if new.spec.persistent else new.spec.mode
    if mode != "session" and not new.spec.network_name:
        yield required("spec.networkName", f"is required by mode {mode}")
    if old is not None:
        yield from check_same(new.spec, old.spec, ("network_name", "ipv6", "mode", "persistent"))


def check_tunnel_proxy(new: ContainerNetworkTunnelProxy, old: ContainerNetworkTunnelProxy | None) -> Iterator[Cause]:
    """Validates a tunnel proxy: tunnels may be added and removed, but not redefined."""
    yield from check_annotations(new.metadata.annotations)
    if old is None:
        return
    yield from check_same(new.spec, old.spec, ("container_network_name", "base_image"))
    if sorted(new.spec.aliases) != sorted(old.spec.aliases):
        yield invalid("spec.aliases", "is immutable; create a new object")
    known = {one.name: one for one in old.spec.tunnels}
    for number, one in enumerate(new.spec.tunnels):
        if known.get(one.name, one) != one:
            yield invalid(f"spec.tunnels[{number}]", "is immutable; remove it and add another name")
