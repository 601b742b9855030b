"""From the schema of a kind's objects to the class of the kind: its spec, its status, and what else it has."""

import keyword
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final, cast

from levelset.codegen.models_module import RESERVED, Kind
from levelset.codegen.models_reading import Place, Reader, Schema, as_list
from levelset.codegen.models_tree import ANYTHING, Inline, MapOf, Member, Named, Role, Type, Word
from levelset.codegen.models_wording import quoted
from levelset.objects import plural_of

__all__ = ["kind_of", "name_keywords"]

_WORD: Final = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
_EVERYWHERE: Final = frozenset({"apiVersion", "kind", "metadata"})


def kind_of(
    gvk: tuple[str, str], schema: Schema, place: Place, reader: Reader, *, keywords: Iterable[str] = (), title: str = ""
) -> Kind:
    """The class of a kind, `gvk` being its `apiVersion` and its `kind`; `keywords` follow the `api` of the class.

    Where there is a spec the class is a Resource, else an Object whose members stand beside its metadata.
    """
    api, kind = gvk
    properties = _properties(schema, place)
    has_spec = "spec" in properties
    apart = _EVERYWHERE | {"spec", "status"} if has_spec else _EVERYWHERE
    rest = {name: one for name, one in properties.items() if name not in apart}
    members = reader.shape({**schema, "properties": rest}, place)
    spec = status = None
    if has_spec:
        is_needed = "spec" in as_list(schema.get("required"))
        spec = _spec(reader, properties["spec"], place.member("spec"), required=is_needed)
    if has_spec and "status" in properties:
        status = _as(reader.type(properties["status"], place.member("status")), "Status")
    name = f"{kind}Kind" if kind in RESERVED or keyword.iskeyword(kind) else kind
    given = (f"api={quoted(api)}", *((f"kind={quoted(kind)}",) if name != kind else ()), *keywords)
    return Kind(name, given, members, spec, status, title or f"A {kind} of {api}.")


def name_keywords(
    kind: str,
    place: Place,
    *,
    plural: str,
    singular: str = "",
    scope: str = "Namespaced",
    short_names: Iterable[str] = (),
    categories: Iterable[str] = (),
) -> list[str]:
    """The keywords of a class that name its kind, without those that say what is so anyway."""
    several = {"shortNames": list(short_names), "categories": list(categories)}
    for name, given in {"plural": [plural], "singular": [singular or plural], **several}.items():
        for one in given:
            if _WORD.fullmatch(one) is None:
                raise place.refusal(f"{name} has {one!r:.60}, which is no word in small letters; mend it first")
    words = [f"plural={quoted(plural)}"] if plural != plural_of(kind) else []
    words += [f"singular={quoted(singular)}"] if singular and singular != kind.lower() else []
    words += [f"scope={quoted(scope)}"] if scope != "Namespaced" else []
    for word, values in (("short_names", several["shortNames"]), ("categories", several["categories"])):
        words += [f"{word}=[{', '.join(map(quoted, values))}]"] if values else []
    return words


def _spec(reader: Reader, schema: Any, place: Place, *, required: bool) -> Member:
    """The spec. One that may be left out is empty where an empty one will do, and else must be given all the same."""
    member = reader.member("spec", schema, place, required=True)
    found = _as(member.type, "Spec")
    fallback = None if required else _empty(reader, found)
    return replace(member, type=found, fallback=fallback)


def _empty(reader: Reader, found: Type) -> str | None:
    match found:
        case Inline(shape):
            return "new" if shape.open else None
        case Named(definition):
            return "new" if reader.is_open(definition) else None
        case MapOf():
            return "{}"
        case Word() if found == ANYTHING:
            return "None"
        case _:
            return None


def _as(found: Type, role: Role) -> Type:
    return Inline(replace(found.shape, role=role)) if isinstance(found, Inline) else found


def _properties(schema: Schema, place: Place) -> Schema:
    properties: Any = schema.get("properties") or {}
    if not isinstance(properties, Mapping):
        raise place.refusal("`properties` must be a map of schemas")
    return cast("Schema", properties)
