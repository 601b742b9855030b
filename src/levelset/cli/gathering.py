"""Gathers what a project consists of from the modules that a command is given: controllers, webhooks and kinds."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, cast

from levelset.cli.loading import attribute_of, call, load_module, split_target
from levelset.client.kinds import OnlyMetadata, view_of
from levelset.codegen.crd import is_custom
from levelset.codegen.permissions import Permission
from levelset.controller import Controller
from levelset.controller.relations import Owns, References, Watches
from levelset.errors import ConfigError
from levelset.manager.system import Part, System
from levelset.objects import Object
from levelset.objects.definition import definition_of
from levelset.webhook import Conversions, Converts, Hook, Webhooks

__all__ = ["Gathered", "gather", "gather_controllers"]


@dataclass
class Gathered:
    """What was found, each once, in the order in which it was."""

    controllers: list[Controller[Any]] = field(default_factory=list[Controller[Any]])
    webhooks: list[Any] = field(default_factory=list[Any])
    kinds: list[type[Object]] = field(default_factory=list[type[Object]])
    permissions: list[Permission] = field(default_factory=list[Permission])
    """What the project says it needs besides what can be seen."""
    modules: list[ModuleType] = field(default_factory=list[ModuleType])
    systems: list[System] = field(default_factory=list[System])
    """Those whose parts are among the others, as far as they are known before the system is opened."""

    @property
    def parts(self) -> Sequence[Part]:
        """What is to be run: the systems, and the controllers that belong to none."""
        held = [one for system in self.systems for one in system.controllers]
        return [*(one for one in self.controllers if not _holds(held, one)), *self.systems]

    @property
    def loose_webhooks(self) -> Sequence[Any]:
        """The webhooks that belong to no system."""
        held = [one for system in self.systems for one in system.webhooks]
        return [one for one in self.webhooks if not _holds(held, one)]

    @property
    def hubs(self) -> Sequence[type[Object]]:
        """Of the kinds with several versions, the one that others are converted to: it is stored."""
        conversions = [one for one in self.webhooks if isinstance(one, Converts)]
        return [versions[0] for versions in Conversions(conversions).kinds.values()]

    @property
    def followed_kinds(self) -> Sequence[type[Object]]:
        """The classes that webhooks are asked about and controllers look at, Kubernetes' own left out; hubs first."""
        found: dict[type[Object] | None, None] = dict.fromkeys(Webhooks(self.webhooks).kinds)
        for controller in self.controllers:
            others = [one.kind for one in controller.relations if isinstance(one, Owns | Watches | References)]
            found |= dict.fromkeys(_class_of(one) for one in (controller.kind, *others))
        return [one for one in found if one is not None and is_custom(definition_of(one).gvk.group)]

    @property
    def own_kinds(self) -> Sequence[type[Object]]:
        """The classes that this project defines: of other groups than those of its controllers they are somebody's."""
        groups = {view_of(one.kind).gvk.group for one in self.controllers}
        groups |= {definition_of(one).gvk.group for one in self.hubs}
        every = dict.fromkeys([*self.kinds, *self.followed_kinds])
        custom = [one for one in every if is_custom(definition_of(one).gvk.group)]
        return [one for one in custom if not groups or definition_of(one).gvk.group in groups]

    def take(self, value: Any) -> bool:
        """Keeps a value that belongs to a project; whether it does."""
        match value:
            case Controller():
                _add(self.controllers, value)
            case Hook() | Converts():
                _add(self.webhooks, value)
            case System():
                _add(self.systems, value)
                for part in (*value.controllers, *value.webhooks, *value.kinds):
                    self.take(part)
            case Permission():
                _add(self.permissions, value)
            case type() if _is_kind(value):
                _add(self.kinds, value)
            case list() | tuple():
                several = cast("Iterable[Any]", value)
                taken = [self.take(one) for one in several]
                return bool(taken) and all(taken)
            case _:
                return False
        return True


def gather(targets: Iterable[str]) -> Gathered:
    """What the targets name: an attribute, or everything that a module holds; ConfigError if there is nothing."""
    found = Gathered()
    for target in targets:
        name, attribute = split_target(target)
        module = load_module(name)
        _add(found.modules, module)
        if attribute is None:
            taken = [found.take(value) for key, value in vars(module).items() if not key.startswith("_")]
            if not any(taken):
                raise ConfigError(f"{target} holds no Controllers, no webhooks and no kinds")
        elif not found.take(_value(target, attribute_of(module, name, attribute, Controller, Hook, Converts, System))):
            raise ConfigError(f"{target} is no Controller, no webhook and no kind, nor a list of them")
    return found


def gather_controllers(targets: Iterable[str]) -> Gathered:
    """The same for a command that runs them: ConfigError if no Controller is there."""
    several = tuple(targets)
    found = gather(several)
    if several and not found.parts:
        module, _ = split_target(several[0])
        raise ConfigError(f"{', '.join(several)} holds no Controllers; name one, as in {module}:NAME")
    return found


def _value(target: str, value: Any) -> Any:
    """The value, or what a function makes of it."""
    others: tuple[type[Any], ...] = (type, Controller, Hook, Converts, System)
    if callable(value) and not isinstance(value, others):
        return call(target, value)
    return cast("Any", value)


def _is_kind(value: type[Any]) -> bool:
    return issubclass(value, Object) and "__definition__" in vars(value)


def _class_of(kind: Any) -> type[Object] | None:
    behind = kind.of if isinstance(kind, OnlyMetadata) else kind
    return behind if isinstance(behind, type) and issubclass(behind, Object) else None


def _add(many: list[Any], one: Any) -> None:
    if not _holds(many, one):
        many.append(one)


def _holds(many: Iterable[Any], one: Any) -> bool:
    return any(known is one for known in many)
