"""Forms: patches and applies of which everything but the name of the object and the body is known beforehand.

A controller writes objects of few kinds to few places, with the settings of its client. What is the same each time (the
path up to the name, the query, the words) is put together once for each kind and place; the client keeps it.
"""

from typing import Any, Final

import msgspec

from levelset.client.calls import Call
from levelset.client.requests import JSON, PLAIN, Target, Validation, writing_query
from levelset.objects.identity import GroupVersionKind

__all__ = ["APPLY", "Form", "FormKey", "form_of"]

APPLY: Final = "application/apply-patch+yaml"

FormKey = tuple[type[Any], str | None, str | None, str, bool | None]
"""Which form: the class, the namespace that was named, the part that is written, the content type, and `force`."""


class Form(msgspec.Struct, frozen=True):
    """The patches of objects of one class in one place."""

    class_: type[Any]
    place: Target
    """Where the objects are; without a name."""
    gvk: GroupVersionKind
    namespace: str | None
    path: str
    """What stands before the name."""
    words: str
    tail: str
    """What stands behind the name, in the path and in the words."""
    query: str
    content_type: str
    timeout: float
    is_dry: bool

    def call(self, name: str, body: bytes) -> Call:
        """The call for one object; BadName if its name cannot stand in a path."""
        part = name if name.__class__ is str and PLAIN.fullmatch(name) else self.place.part("name", name)
        return Call(
            method="PATCH",
            path=f"{self.path}{part}{self.tail}",
            query=self.query,
            headers={"accept": JSON, "content-type": self.content_type},
            body=body,
            timeout=self.timeout,
            verb="patch",  # an apply is a patch to the server; only the words tell them apart
            words=f"{self.words}{name}{self.tail}",
        )


def form_of(
    place: Target,
    key: FormKey,
    *,
    timeout: float,
    manager: str | None = None,
    validation: Validation | None = None,
    dry_run: bool = False,
) -> Form:
    """The form for a kind in a place; BadName or ConfigError if no call could be made of it."""
    class_, _, subresource, content_type, force = key
    kind, verb = place.served.gvk.kind, "apply" if content_type == APPLY else "patch"
    return Form(
        class_=class_,
        place=place,
        gvk=place.served.gvk,
        namespace=place.namespace,
        path=f"{place.path}/",
        words=f"{verb} {kind}/{place.namespace}/" if place.namespace else f"{verb} {kind}/",
        tail=f"/{subresource}" if subresource else "",
        query=writing_query(manager, validation, bool(dry_run), force),
        content_type=content_type,
        timeout=timeout,
        is_dry=bool(dry_run),
    )
