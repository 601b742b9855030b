"""URLs of the API: which resource, in which namespace, which object and which part of it.

`/apis/{group}/{version}/namespaces/{namespace}/{plural}/{name}/{subresource}`, or `/api/{version}/...` for the core
group; without `namespaces/{namespace}` for cluster-scoped resources and for all namespaces at once.
"""

import msgspec

from levelset.errors import BadRequest

__all__ = ["Address", "read_address"]


class Address(msgspec.Struct, frozen=True, gc=False):
    """Where a request goes, as far as the path says; whether there is such a resource is for the catalog to say."""

    group: str
    version: str
    plural: str
    namespace: str | None = None
    name: str | None = None
    subresource: str = ""
    watch: bool = False
    """Whether this is one of the old watch paths, `/api/v1/watch/...`."""

    @property
    def is_collection(self) -> bool:
        """Whether the path names no single object."""
        return self.name is None


def read_address(segments: tuple[str, ...]) -> Address | None:
    """The address of a resource; None for any other path, such as that of a discovery document.

    Raises BadRequest for a name that no object can have.
    """
    match segments:
        case ("api", version, *rest) if rest:
            return _read_rest("", version, rest)
        case ("apis", group, version, *rest) if rest and group:
            return _read_rest(group, version, rest)
        case _:
            return None


def _read_rest(group: str, version: str, rest: list[str]) -> Address | None:
    watch = rest[0] == "watch" and len(rest) > 1
    if watch:
        rest = rest[1:]
    namespace = None
    # `namespaces/x` alone is the namespace itself, and so are its own subresources.
    if rest[0] == "namespaces" and len(rest) > 2 and not (not group and rest[2] in ("status", "finalize")):
        namespace, rest = rest[1], rest[2:]
    if len(rest) > 3 or not all(rest) or namespace == "":
        return None
    name = rest[1] if len(rest) > 1 else None
    for text in (namespace, name):
        if text is not None and ("/" in text or "%" in text or text in (".", "..")):
            raise BadRequest(f"{text!r} cannot be a name in a path: it may not be '.' or '..' nor contain '/' or '%'")
    return Address(group, version, rest[0], namespace, name, rest[2] if len(rest) > 2 else "", watch)
