"""Writes the `new` of kinds whose spec is missing, or may be: `Secret.new("password", string_data={...})`."""

from collections.abc import Iterator, Sequence
from typing import Final

from levelset.codegen import models_layout as layout
from levelset.codegen.models_tree import ANYTHING, MapOf, Member

__all__ = ["maker", "resource_maker"]

_METADATA: Final = (
    *("name=name", "namespace=namespace"),
    *("labels=dict(labels or {})", "annotations=dict(annotations or {})"),
)


def maker(members: Sequence[tuple[str, str, Member]], *, namespaced: bool) -> list[str]:
    """The lines of a classmethod that takes a name and the kind's own members.

    Each member comes with its attribute's name and its type as it is written.
    """
    parameters = ["cls", "name: str", "*", *(["namespace: str | None = None"] if namespaced else [])]
    parameters += ["labels: Mapping[str, str] | None = None", "annotations: Mapping[str, str] | None = None"]
    parameters += [_parameter(*one) for one in members]
    metadata = [one for one in _METADATA if namespaced or not one.startswith("namespace")]
    deeper = layout.STEP * 2
    return [
        f"{layout.STEP}@classmethod",
        *layout.bracketed("def new(", parameters, ") -> Self:", layout.STEP),
        f'{deeper}"""A new object that no server has seen yet."""',
        *layout.bracketed("metadata = ObjectMeta(", metadata, ")", deeper),
        *layout.bracketed("return cls(", ["metadata=metadata", *_arguments(members)], ")", deeper),
    ]


def _parameter(name: str, text: str, member: Member) -> str:
    optional = text if text == "Any" else f"{text} | None"
    if member.required:
        return f"{name}: {optional if member.nullable else text}"
    if isinstance(member.type, MapOf):
        values = text.removeprefix("dict[str, ").removesuffix("]")
        return f"{name}: Mapping[str, {values}] | None = None"
    return f"{name}: {text} = {member.fallback}" if member.fallback in ("()", "0") else f"{name}: {optional} = None"


def _arguments(members: Sequence[tuple[str, str, Member]]) -> Iterator[str]:
    for name, text, member in members:
        if member.fallback == "new":
            yield f"{name}={text}() if {name} is None else {name}"
        elif isinstance(member.type, MapOf) and not member.required:
            yield f"{name}={_copied(name, member)}"
        else:
            yield f"{name}={name}"


def _copied(name: str, member: Member) -> str:
    if member.type == MapOf(ANYTHING) or member.fallback == "None":
        return f"None if {name} is None else dict({name})"
    return f"dict({name} or {{}})"


def resource_maker(spec: str) -> list[str]:
    """The lines of a `new` whose spec may be left out, for kinds that an empty spec will do for."""
    parameters = [
        "cls",
        "name: str",
        f"spec: {spec} | None = None",
        "*",
        "namespace: str | None = None",
        "labels: Mapping[str, str] | None = None",
        "annotations: Mapping[str, str] | None = None",
    ]
    deeper = layout.STEP * 2
    return [
        f"{layout.STEP}@classmethod",
        *layout.bracketed("def new(", parameters, ") -> Self:", layout.STEP),
        f'{deeper}"""A new object that no server has seen yet; without a spec, an empty one."""',
        *layout.bracketed("metadata = ObjectMeta(", _METADATA, ")", deeper),
        f"{deeper}return cls(metadata=metadata) if spec is None else cls(metadata=metadata, spec=spec)",
    ]
