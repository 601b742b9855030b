"""The tar archive of files and certificates that is copied into a container before it starts.

Names in the archive are absolute paths without the first slash, so that it is unpacked below `/`.
"""

import base64
import io
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from msgspec import Struct

from levelset.errors import LevelsetError
from levelset.objects import from_tree
from levelset_dcp.kinds import Certificate, ContainerCertificates, FileEntry, FileSet
from levelset_dcp.workloads.certificates import NoCertificate, subject_hash

__all__ = [
    "DEEPEST_DIRECTORY",
    "BadFile",
    "Member",
    "archive_of",
    "is_file_name",
    "members_of_certificates",
    "members_of_files",
]

_DESTINATION: Final = "/usr/local/share/levelset"
DEEPEST_DIRECTORY: Final = 64
_UMASK: Final = 0o022
_PERMISSIONS: Final = 0o7777


class BadFile(LevelsetError):
    """A file that cannot be copied into a container; the message names it and the reason."""


class Member(Struct, frozen=True, kw_only=True):
    """One entry of the archive."""

    path: str
    content: bytes = b""
    mode: int
    owner: int = 0
    group: int = 0
    target: str = ""
    """The target of a symbolic link."""
    is_folder: bool = False


class _Rules(Struct, frozen=True):
    owner: int
    group: int
    umask: int
    depth: int = 0


def archive_of(members: Iterable[Member], *, at: float) -> bytes:
    """A tar archive of all members with the modification time `at`, in seconds since 1970; pure."""
    import tarfile  # noqa: PLC0415  # it takes a while to load, and few containers get files

    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:", format=tarfile.PAX_FORMAT) as tar:
        for one in members:
            entry = tarfile.TarInfo(one.path.lstrip("/"))
            entry.mode, entry.uid, entry.gid, entry.mtime = one.mode, one.owner, one.group, int(at)
            if one.is_folder:
                entry.type = tarfile.DIRTYPE
            elif one.target:
                entry.type, entry.linkname = tarfile.SYMTYPE, one.target
            else:
                entry.size = len(one.content)
            tar.addfile(entry, io.BytesIO(one.content))
    return made.getvalue()


def is_file_name(name: str) -> bool:
    """Whether a name is one component of a path: it cannot lead out of a directory; pure."""
    return name not in ("", ".", "..") and "/" not in name and "\0" not in name


def members_of_files(sets: Iterable[FileSet]) -> Iterator[Member]:
    """The members of all sets; raises BadFile unless an entry has continueOnError. Reads local files: blocks."""
    for one in sets:
        rules = _Rules(one.default_owner, one.default_group, _UMASK if one.umask is None else one.umask)
        for entry in one.entries:
            yield from _entry(one.destination, entry, rules)


def members_of_certificates(certificates: ContainerCertificates) -> Iterator[Member]:
    """Each certificate with its OpenSSL hash link, and a bundle of all; raises BadFile; pure."""
    root = (certificates.destination or _DESTINATION).rstrip("/")
    bundle: list[str] = []
    for one in certificates.certificates:
        try:
            subject = subject_hash(one.contents)
        except NoCertificate as error:
            if certificates.continue_on_error:
                continue
            raise BadFile(f"certificate {one.thumbprint}: {error}") from error
        bundle.append(f"{one.contents.strip()}\n")
        yield from _certificate(f"{root}/certs", one, subject)
    content = "".join(bundle).encode()
    for path in (f"{root}/cert.pem", *certificates.overwrite_bundle_paths):
        yield Member(path=path, content=content, mode=0o644)


def _certificate(folder: str, one: Certificate, subject: str) -> Iterator[Member]:
    name = f"{one.thumbprint}.pem"
    yield Member(path=f"{folder}/{name}", content=f"{one.contents.strip()}\n".encode(), mode=0o644)
    yield Member(path=f"{folder}/{subject}.0", target=name, mode=0o777)


def _entry(folder: str, entry: FileEntry, rules: _Rules) -> Iterator[Member]:
    path = f"{folder.rstrip('/')}/{entry.name}"
    try:
        made = list(_members(path, entry, rules))
    except (OSError, ValueError, LevelsetError) as error:
        if entry.continue_on_error:
            return
        raise error if isinstance(error, BadFile) else BadFile(f"{path}: {error}") from error
    yield from made


def _members(path: str, entry: FileEntry, rules: _Rules) -> Iterator[Member]:
    if not is_file_name(entry.name):
        raise BadFile(f"{path}: a name without a path is expected, and not {entry.name!r}")
    owner = rules.owner if entry.owner is None else entry.owner
    group = rules.group if entry.group is None else entry.group
    if entry.type == "directory":
        yield Member(path=path, mode=_mode(entry, 0o777, rules), owner=owner, group=group, is_folder=True)
        if rules.depth >= DEEPEST_DIRECTORY:
            raise BadFile(f"{path}: directories are nested more than {DEEPEST_DIRECTORY} deep")
        inner = _Rules(owner, group, rules.umask, rules.depth + 1)
        for one in entry.entries:
            yield from _entry(path, from_tree(FileEntry, one), inner)
        return
    content = _content(entry)
    yield Member(path=path, content=content, mode=_mode(entry, 0o666, rules), owner=owner, group=group)
    if entry.type == "openssl":
        link = f"{path.rpartition('/')[0]}/{subject_hash(content.decode())}.0"
        yield Member(path=link, target=entry.name, mode=0o777, owner=owner, group=group)


def _mode(entry: FileEntry, default: int, rules: _Rules) -> int:
    """The permissions of an entry; without a mode, or with 0, those that the umask leaves."""
    return entry.mode & _PERMISSIONS if entry.mode else default & ~rules.umask


def _content(entry: FileEntry) -> bytes:
    if entry.source:
        return Path(entry.source).read_bytes()
    if entry.raw_contents:
        return base64.b64decode(entry.raw_contents, validate=True)
    return entry.contents.encode()
