"""Files that are put into a container before it starts."""

from typing import Annotated, Any, Literal

from levelset import Meta, Model
from levelset.objects import PreserveUnknown

__all__ = ["FileEntry", "FileSet"]


class FileEntry(Model):
    """A file, a folder with more entries, a link, or a certificate with the link that OpenSSL looks for."""

    name: Annotated[str, Meta(min_length=1)]
    type: Literal["", "file", "directory", "symlink", "openssl"] = ""
    owner: int | None = None
    group: int | None = None
    mode: int | None = None
    source: str = ""
    contents: str = ""
    raw_contents: str = ""
    """The bytes of the file, in base64."""
    target: str = ""
    continue_on_error: bool = False
    entries: Annotated[tuple[dict[str, Any], ...], PreserveUnknown()] = ()
    """What is in the folder: entries again, as deep as need be."""


class FileSet(Model):
    """Entries below one folder of the container."""

    destination: Annotated[str, Meta(min_length=1)]
    entries: tuple[FileEntry, ...]
    default_owner: int = 0
    default_group: int = 0
    umask: int = 0o022
