"""`Definition`: what a class declares about its kind (names, scope, subresources, printer columns)."""

import re
from collections.abc import Iterable
from typing import Any, Final, Literal

from msgspec import Struct

from levelset.errors import BadName, ConfigError
from levelset.objects.lazy_pattern import Pattern
from levelset.objects.names import check_dns1035_label
from levelset.objects.ref import GroupVersionKind, GroupVersionResource, parse_api_version

__all__ = ["Column", "Definition", "Scale", "Scope", "define", "definition_of", "plural_of"]

Scope = Literal["Namespaced", "Cluster"]

_KIND: Final = Pattern(r"[A-Z][A-Za-z0-9]{0,62}", re.ASCII)
_WORD: Final = Pattern(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)


class Column(Struct, frozen=True):
    """One printer column of `kubectl get`.

    `path` is a JSONPath such as `.status.ready`; a `priority` above zero shows the column in wide output only.
    """

    name: str
    path: str
    type: Literal["string", "integer", "number", "boolean", "date"] = "string"
    format: str = ""
    priority: int = 0
    description: str = ""


class Scale(Struct, frozen=True):
    """The scale subresource: JSONPaths of the replicas and the selector."""

    spec: str = ".spec.replicas"
    status: str = ".status.replicas"
    selector: str | None = None


class Definition(Struct, frozen=True, cache_hash=True):
    """The definition of a kind: names, scope, subresources, columns and versions."""

    gvk: GroupVersionKind
    plural: str
    singular: str
    scope: Scope = "Namespaced"
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    columns: tuple[Column, ...] = ()
    status: bool = False
    scale: Scale | None = None
    description: str = ""
    selectable: tuple[str, ...] = ()
    """JSONPaths of the fields that a field selector may use, such as `.spec.color`."""
    served: bool = True
    stored: bool = False
    """Whether objects are stored in this version; of several versions, one."""
    deprecated: bool = False
    deprecation: str = ""
    """The warning for requests that use a deprecated version; empty means the server's default warning."""

    @property
    def gvr(self) -> GroupVersionResource:
        """The resource under which the kind is served."""
        return GroupVersionResource(self.gvk.group, self.gvk.version, self.plural)

    @property
    def list_kind(self) -> str:
        """The kind of a list of these objects."""
        return f"{self.gvk.kind}List"

    @property
    def namespaced(self) -> bool:
        """Whether the kind is namespaced."""
        return self.scope == "Namespaced"


def define(
    class_name: str,
    *,
    api: str,
    kind: str | None = None,
    plural: str | None = None,
    singular: str | None = None,
    scope: Scope = "Namespaced",
    short_names: Iterable[str] = (),
    categories: Iterable[str] = (),
    columns: Iterable[Column] = (),
    status: bool = False,
    scale: Scale | None = None,
    description: str = "",
    selectable: Iterable[str] = (),
    served: bool = True,
    stored: bool = False,
    deprecated: bool | str = False,
) -> Definition:
    """The definition from the keywords of a class; BadName or ConfigError names the wrong keyword."""
    group, version = parse_api_version(api)
    if kind is None:
        if _KIND.fullmatch(class_name) is None:
            raise BadName(f"the kind {class_name} must be a word in CamelCase such as Website", field="kind")
        kind = class_name
    elif not isinstance(kind, str) or check_dns1035_label(kind.lower()):
        rule = "must be at most 63 letters, digits or '-', the first a letter, such as Website"
        raise BadName(f"kind={kind!r} of {class_name} {rule}", field="kind")
    if scope not in ("Namespaced", "Cluster"):
        raise ConfigError(f"scope={scope!r} of {class_name} must be 'Namespaced' or 'Cluster'")
    words = {
        "plural": (plural_of(kind) if plural is None else plural,),
        "singular": (kind.lower() if singular is None else singular,),
        "short_names": _several(class_name, "short_names", short_names),
        "categories": _several(class_name, "categories", categories),
    }
    _check_words(class_name, words)
    return Definition(
        gvk=GroupVersionKind(group, version, kind),
        plural=words["plural"][0],
        singular=words["singular"][0],
        scope=scope,
        short_names=words["short_names"],
        categories=words["categories"],
        columns=tuple(columns),
        status=status,
        scale=scale,
        description=description,
        selectable=_several(class_name, "selectable", selectable),
        served=served,
        stored=stored,
        deprecated=bool(deprecated),
        deprecation=deprecated if isinstance(deprecated, str) else "",
    )


def definition_of(kind: Any) -> Definition:
    """The definition of a class or of an object of it; ConfigError for a class without `api=`."""
    found = getattr(kind, "__definition__", None)
    if not isinstance(found, Definition):
        shown = getattr(kind, "__name__", type(kind).__name__)
        raise ConfigError(f'{shown} does not declare a kind: write class {shown}(..., api="group/version")')
    return found


def plural_of(kind: str) -> str:
    """The default plural of a kind, by English rules: policies, gateways, ingresses."""
    word = kind.lower()
    if word.endswith("y") and word[-2:-1] not in "aeiou":
        return f"{word[:-1]}ies"
    if word.endswith(("s", "x", "z", "ch", "sh")):
        return f"{word}es"
    return f"{word}s"


def _several(class_name: str, keyword: str, words: Iterable[str]) -> tuple[str, ...]:
    if isinstance(words, str):
        raise ConfigError(f"{keyword}={words!r} of {class_name} must be a list of words: write [{words!r}]")
    return tuple(words)


def _check_words(class_name: str, words: dict[str, tuple[str, ...]]) -> None:
    for keyword, values in words.items():
        for value in values:
            if not isinstance(value, str) or _WORD.fullmatch(value) is None:
                raise BadName(f"{keyword} {value!r} of {class_name} must be a lower-case word", field=keyword)
