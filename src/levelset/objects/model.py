"""The base of everything typed: frozen msgspec structs with Python names here and Kubernetes' names on the wire."""

from collections.abc import Iterable
from typing import Any, TypeVar, dataclass_transform

import msgspec
from msgspec import Meta, Struct, StructMeta, field

from levelset.errors import ConfigError
from levelset.objects.declarations import Rule, rules_of
from levelset.objects.wirenames import wire_name

__all__ = ["Meta", "Model", "ModelType", "Spec", "Status", "field", "replace"]

M = TypeVar("M", bound=Struct)


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
class ModelType(StructMeta):
    """Makes keyword-only the default for each subclass, and takes `rules`; msgspec inherits every other setting."""

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
        made: ModelType = super().__new__(mcls, name, bases, namespace, **options)
        own = tuple(rules)
        if own:
            _check_rules(name, own)
            setattr(made, "__rules__", (*rules_of(made), *own))  # noqa: B010  # as `__definition__` of a kind
        return made


def _check_rules(class_name: str, rules: tuple[object, ...]) -> None:
    for one in rules:
        if not isinstance(one, Rule):
            raise ConfigError(f'rules= of {class_name} has {one!r}, which is no rule: write [Rule("self.a <= self.b")]')


# Said again for mypy, which looks at the base class before the metaclass.
@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
class Model(Struct, metaclass=ModelType, frozen=True, omit_defaults=True, repr_omit_defaults=True, rename=wire_name):
    """A part of an object: `class Port(Model): container_port: int; protocol: str = "TCP"`.

    Attributes are keyword-only, snake_case in Python and camelCase on the wire, and left out of the JSON while they
    have their default. Constraints are declared with `Annotated[int, Meta(ge=1)]`, rules about several attributes with
    the class: `class Range(Model, rules=[Rule("self.min <= self.max")])`.
    """


class Spec(Model):
    """What somebody wants: the base of a resource's `spec`."""


class Status(Model):
    """How things are: the base of a resource's `status`."""


def replace(struct: M, /, **changes: Any) -> M:
    """A copy with some attributes changed; what an object was read from is kept (see `decode`)."""
    remake = getattr(struct, "__replace__", None)
    made: M = remake(**changes) if remake else msgspec.structs.replace(struct, **changes)
    return made
