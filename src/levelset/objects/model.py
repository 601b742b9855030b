"""`Model`, the base of typed objects: frozen msgspec structs, snake_case in Python and camelCase in JSON.

`ready_replicas` in Python is `readyReplicas` in JSON, and `pod_ip` is `podIP` (see `wire_name`).
"""

import keyword
import re
from collections.abc import Iterable
from typing import Any, Final, TypeVar, dataclass_transform

import msgspec
from msgspec import Meta, Struct, StructMeta, field

from levelset.errors import ConfigError
from levelset.objects.field_markers import Rule, rules_of
from levelset.objects.lazy_pattern import Pattern

__all__ = ["Meta", "Model", "ModelType", "Spec", "Status", "field", "python_name", "replace", "wire_name"]

# Words that Kubernetes writes in capitals unless they come first. Every field of the built-in kinds follows this
# table; a custom resource that writes `podIp` says so with `field(name="podIp")`.
_CAPITALS: Final = {
    word.lower(): word
    for word in (
        "API", "CIDR", "CIDRs", "CPU", "FQDN", "ID", "IDs", "IO", "IP", "IPC", "IPs", "PID",
        "TLS", "UID", "UIDs", "URI", "URIs", "URL", "URLs", "UUID", "UUIDs", "WWNs",
    )
}  # fmt: skip

# The few names that follow no rule.
_ODD: Final = {"open_api_v3_schema": "openAPIV3Schema"}
_ODD_BACK: Final = {wire: name for name, wire in _ODD.items()}

# Python keywords get a trailing underscore: `continue_`, `from_`, `not_`.
_KEYWORDS: Final = frozenset(keyword.kwlist)

_WORDS: Final = Pattern(
    r"(?:CIDR|ID|IP|UID|URI|URL|UUID|WWN)s(?![a-z])"  # the plurals of capitals: clusterIPs
    r"|[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z0-9]+|[A-Z]+"
)


def wire_name(name: str) -> str:
    """The JSON name of a Python attribute: `cluster_ips` gives `clusterIPs`, `continue_` gives `continue`."""
    if "_" not in name:  # most of them
        return name
    if name in _ODD:
        return _ODD[name]
    first, *rest = name.strip("_").split("_") if name.strip("_") else [name]
    return first + "".join(_CAPITALS.get(word) or word[:1].upper() + word[1:] for word in rest)


def python_name(wire: str) -> str:
    """The Python attribute for a JSON name: `clusterIPs` gives `cluster_ips`, `continue` gives `continue_`.

    Names with other characters (`$ref`, `x-kubernetes-list-type`) give a valid identifier; the caller must check
    whether `wire_name` is its inverse.
    """
    if wire in _ODD_BACK:
        return _ODD_BACK[wire]
    words = [word.lower() for part in re.split(r"[^A-Za-z0-9]+", wire) for word in _WORDS.findall(part)]
    name = "_".join(words) or "field"
    if name[0].isdigit():
        name = f"field_{name}"
    return f"{name}_" if name in _KEYWORDS else name


M = TypeVar("M", bound=Struct)


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
class ModelType(StructMeta):
    """The metaclass of models: makes fields keyword-only by default and accepts `rules=`."""

    def __new__(  # noqa: D102, PYI034  # mypy knows no Self in a metaclass
        mcls,
        name: str,
        bases: tuple[type, ...],
        namespace: dict[str, Any],
        *,
        rules: Iterable[Rule] = (),
        **options: Any,
    ) -> "ModelType":
        options.setdefault("kw_only", True)
        if options.get("dict"):
            options.setdefault("gc", True)  # msgspec demands it: a `__dict__` may hold anything
        made: ModelType = super().__new__(mcls, name, bases, namespace, **options)
        own = tuple(rules)
        if own:
            _check_rules(name, own)
            setattr(made, "__rules__", (*rules_of(made), *own))  # noqa: B010  # as `__definition__` of a kind
        return made


def _check_rules(class_name: str, rules: tuple[object, ...]) -> None:
    for one in rules:
        if not isinstance(one, Rule):
            raise ConfigError(
                f'rules= of {class_name} has {one!r}, which is not a Rule: write [Rule("self.a <= self.b")]'
            )


# Repeated for mypy, which reads the base class before the metaclass.
@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
class Model(
    Struct, metaclass=ModelType, frozen=True, omit_defaults=True, repr_omit_defaults=True, rename=wire_name, gc=False
):
    """A part of an object: `class Port(Model): container_port: int; protocol: str = "TCP"`.

    Attributes are keyword-only, snake_case in Python and camelCase in JSON, and omitted from the JSON while they have
    their default. Constraints are declared with `Annotated[int, Meta(ge=1)]`, rules about several attributes on the
    class: `class Range(Model, rules=[Rule("self.min <= self.max")])`.

    The garbage collector does not track models, which made up nine of ten objects that it visited in a program with
    many decoded ones. Frozen trees have no cycles; who puts a dict or list into a model and then the model into it
    makes one that is never freed, and can declare the class with `gc=True`.
    """


class Spec(Model):
    """The base of a resource's `spec`: the desired state."""


class Status(Model):
    """The base of a resource's `status`: the observed state."""


def replace(struct: M, /, **changes: Any) -> M:
    """A copy with some attributes changed; the origin of a decoded object is retained (see `decode`)."""
    remake = getattr(struct, "__replace__", None)
    made: M = remake(**changes) if remake else msgspec.structs.replace(struct, **changes)
    return made
