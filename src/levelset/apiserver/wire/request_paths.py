"""Request paths of the Kubernetes API: group, version, namespace, resource, name and subresource.

`/apis/{group}/{version}/namespaces/{namespace}/{plural}/{name}/{subresource}`, or `/api/{version}/...` for the core
group; without `namespaces/{namespace}` for cluster-scoped resources and for all namespaces at once. Behind the
subresource `proxy` follows any path, which is not parsed.
"""

import msgspec

from levelset.errors import BadRequest

__all__ = ["RequestPath", "parse_request_path"]


class RequestPath(msgspec.Struct, frozen=True, gc=False):
    """A parsed path of a resource; the catalog knows whether the resource exists."""

    group: str
    version: str
    plural: str
    namespace: str | None = None
    name: str | None = None
    subresource: str = ""
    watch: bool = False
    """Whether this is a deprecated watch path, `/api/v1/watch/...`."""

    @property
    def is_collection(self) -> bool:
        """Whether the path names no single object."""
        return self.name is None


def parse_request_path(segments: tuple[str, ...]) -> RequestPath | None:
    """Parses the path of a resource; None for any other path, such as that of a discovery document.

    Raises BadRequest for an invalid name or namespace.
    """
    match segments:
        case ("api", version, *rest) if rest:
            return _parse_rest("", version, rest)
        case ("apis", group, version, *rest) if rest and group:
            return _parse_rest(group, version, rest)
        case _:
            return None


def _parse_rest(group: str, version: str, rest: list[str]) -> RequestPath | None:
    watch = rest[0] == "watch" and len(rest) > 1
    if watch:
        rest = rest[1:]
    namespace = None
    # `namespaces/x` is the Namespace object itself, and `namespaces/x/status` and `/finalize` are its subresources.
    if rest[0] == "namespaces" and len(rest) > 2 and not (not group and rest[2] in ("status", "finalize")):
        namespace, rest = rest[1], rest[2:]
    if len(rest) > 3 and rest[2] == "proxy" and not group:
        rest = rest[:3]
    if len(rest) > 3 or not all(rest) or namespace == "":
        return None
    name = rest[1] if len(rest) > 1 else None
    for text in (namespace, name):
        if text is not None and ("/" in text or "%" in text or text in (".", "..")):
            raise BadRequest(f"{text!r} cannot be a name in a path: it may not be '.' or '..' nor contain '/' or '%'")
    return RequestPath(group, version, rest[0], namespace, name, rest[2] if len(rest) > 2 else "", watch)
