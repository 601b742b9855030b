"""What decides about a pod spec: controllers create many pods from one template, with another image, argument or name.

Whether a spec is valid, who owns its fields and whether it is as Go writes it depend on its outline only. So each of
these questions is answered once for an outline, and an equal one takes neither rules nor walks.
"""

import re
from typing import Any, Final

from levelset.objects import encode_tree

__all__ = ["KnownOutlines", "pod_outline"]

_MASKED: Final = ("image", "args", "command")
_GROUPS: Final = ("containers", "initContainers")  # the rules of ephemeral containers read the image
_TOKEN_VOLUME: Final = b"kube-api-access-"
_TOKEN_VOLUMES: Final = re.compile(rb'"kube-api-access-[a-z0-9]{5}"')
_MAX_KNOWN: Final = 256
_LONGEST: Final = 8_192  # bytes


class KnownOutlines:
    """A bounded set of outlines for which something holds."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: set[bytes] = set()

    def __contains__(self, outline: bytes) -> bool:
        return outline in self._known

    def add(self, outline: bytes) -> None:
        """Remembers the outline, unless it is long."""
        if len(outline) <= _LONGEST:
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
            self._known.add(outline)


def pod_outline(spec: Any) -> bytes:
    """The spec, encoded, without what decides nothing: images, arguments, values of variables, and amounts.

    Of these it has only whether they are empty. Amounts are valid or not by themselves.
    """
    groups = {name: [_container(one) for one in spec[name] or ()] for name in _GROUPS if name in spec}
    outline = encode_tree({**spec, **groups})
    return _without_token_name(outline) if _TOKEN_VOLUME in outline else outline


def _container(container: Any) -> Any:
    if container.__class__ is not dict:
        return container
    outline: dict[str, Any] = container.copy()
    for name in _MASKED:
        if outline.get(name):
            outline[name] = True
    # The names of the members of a variable or amounts, in their order: comprehensions, since calls would cost most.
    variables, resources = outline.get("env"), outline.get("resources")
    if variables:
        outline["env"] = [
            (*one, one["name"]) if one and len(one) == 2 and "name" in one and one.get("value") else one
            for one in variables
        ]
    if resources and "claims" not in resources:
        outline["resources"] = [
            (part, tuple(amounts)) if amounts and all(amounts.values()) else (part, amounts)
            for part, amounts in resources.items()
        ]
    return outline


def _without_token_name(outline: bytes) -> bytes:
    """The outline without the random part of the name of the volume that has the token of the service account."""
    names = set(_TOKEN_VOLUMES.findall(outline))
    return outline.replace(names.pop(), b'"kube-api-access-?"') if len(names) == 1 else outline
