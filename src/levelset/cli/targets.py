"""Loads the targets of a command: `package.module:attribute`, `file.py:attribute`, or a module alone.

The current directory is on the import path, as with `python -m`, and so is its `src`, where `levelset init` puts
modules. Without an attribute, all values of the wanted types in the module are loaded. `LoadedTargets` holds the
controllers, webhooks, kinds and systems that were found.
"""

import importlib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Final, TypeVar, cast

import msgspec

from levelset.client.object_types import OnlyMetadata, view_of
from levelset.codegen.crd import is_custom
from levelset.codegen.permission import Permission
from levelset.errors import ConfigError
from levelset.garbage_collection import loading
from levelset.objects import Object
from levelset.objects.kind_definition import definition_of
from levelset.runtime.controller import Controller
from levelset.runtime.controller.relations import Owns, References, Watches
from levelset.runtime.manager.system import Part, System
from levelset.runtime.webhook import AdmissionHook, Conversion, Conversions, Webhooks

__all__ = [
    "LoadedTargets",
    "attribute_of",
    "call",
    "find_all",
    "load",
    "load_controllers",
    "load_module",
    "load_targets",
    "loader",
    "split_target",
]

T = TypeVar("T")

_SUFFIX: Final = ".py"
_SAMPLE_SYSTEMS: Final = {
    "levelset_machine": ("machine",),
    "levelset_local": ("machine", "local"),
    "levelset_omnia": ("omnia",),
    "levelset_dcp": ("machine", "dcp"),
}
"""The folders of a clone that have the package of a sample system, and those that it needs."""


def split_target(text: str) -> tuple[str, str | None]:
    """Splits a target into module (or file) and attribute, None if there is none; ConfigError if it is malformed."""
    module, _, attribute = text.rpartition(":") if ":" in text else (text, "", "")
    if not module or (attribute and not all(part.isidentifier() for part in attribute.split("."))):
        raise ConfigError(f"{text!r} is not module:attribute; write for example website:controllers or website.py")
    return module, attribute or None


def load_module(text: str) -> ModuleType:
    """Imports a module or a file; ConfigError names the file and line of an error."""
    here = Path.cwd()
    for folder in (here / "src", here):
        if folder.is_dir() and str(folder) not in sys.path:
            sys.path.insert(0, str(folder))
    try:
        return _from_file(Path(text)) if text.endswith(_SUFFIX) else importlib.import_module(text)
    except ConfigError:
        raise
    except ModuleNotFoundError as error:
        if error.name is not None and (text == error.name or text.startswith(f"{error.name}.")):
            raise ConfigError(_no_module(text, here)) from error
        raise ConfigError(f"{text} cannot be imported: {_where(error)}") from error
    except SystemExit as error:
        hint = 'put that below `if __name__ == "__main__":`'
        raise ConfigError(f"{text} exits while it is imported: {_where(error)}; {hint}") from error
    except Exception as error:
        # Any exception of the user's module becomes a message with its file and line.
        raise ConfigError(f"{text} cannot be imported: {_where(error)}") from error


def _no_module(text: str, here: Path) -> str:
    """The message for a missing module; for one of the sample systems, with the package that has it."""
    said = f"there is no module {text} in {here}, its src or the installed packages"
    name = text.partition(".")[0]
    if name not in _SAMPLE_SYSTEMS:
        return said
    needed = " ".join(f"./systems/{one}" for one in _SAMPLE_SYSTEMS[name])
    return f"{said}; it is in the package {name.replace('_', '-')}: in a clone of levelset, pip install {needed}"


def load(text: str, wanted: type[T], *, what: str) -> Sequence[T]:
    """The values that a target names: one value, a list or tuple of them, or all in the module.

    A function without parameters is called, and its result is used. `what` is the plural word for errors.
    """
    return loader(text, wanted, what=what)()


def loader(text: str, wanted: type[T], *, what: str) -> Callable[[], Sequence[T]]:
    """Imports the module of a target; returns a function that returns what `load` returns, made again each time."""
    name, attribute = split_target(text)
    module = load_module(name)

    def values() -> Sequence[T]:
        if attribute is not None:
            return _values(text, attribute_of(module, name, attribute, wanted), wanted, what)
        found = find_all(module, wanted)
        if not found:
            raise ConfigError(f"{text} has no {what}; name one, as in {name}:NAME")
        return found

    return values


def attribute_of(module: ModuleType, name: str, attribute: str, *wanted: type[Any]) -> Any:
    """The attribute of a module; ConfigError lists the attributes of the wanted types if it does not exist."""
    value: Any = module
    for part in attribute.split("."):
        if not hasattr(value, part):
            there = [key for key, one in vars(module).items() if isinstance(one, wanted) and not key.startswith("_")]
            hint = f"it has {', '.join(sorted(there))}" if there else f"it has no {wanted[0].__name__} at all"
            raise ConfigError(f"{name} has no {attribute}; {hint}")
        value = getattr(value, part)
    return value


def call(text: str, function: Any) -> Any:
    """Calls a function without arguments; ConfigError if it needs some, is async, or raises."""
    if inspect.iscoroutinefunction(function):
        raise ConfigError(f"{text} is an async function, which is not supported here; name a plain function")
    try:
        inspect.signature(function).bind()
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{text} cannot be called without arguments: {error}") from error
    try:
        return function()
    except Exception as error:
        # Any exception of the user's function becomes a message, as with an import.
        raise ConfigError(f"{text} cannot be called: {_where(error)}") from error


def find_all(module: ModuleType, wanted: type[T]) -> list[T]:
    """All values of a type with a public name in a module, also in its lists and tuples, each once."""
    found: dict[int, T] = {}
    for name, value in vars(module).items():
        if name.startswith("_"):
            continue
        many = cast("Iterable[Any]", value) if isinstance(value, list | tuple) else [value]
        for one in many:
            if isinstance(one, wanted):
                found.setdefault(id(one), one)
    return list(found.values())


def _from_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise ConfigError(f"there is no file {path}")
    folder, name = _import_name(path.resolve())
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    there = sys.modules.get(name)
    if there is not None and _is_from(there, path):
        return there  # importing it again would create different classes
    if "." in name:
        found = importlib.import_module(name)
        if _is_from(found, path):
            return found
    return _execute(path, name.rpartition(".")[2])


def _import_name(path: Path) -> tuple[Path, str]:
    """The import path and module name of a file; in a package the name includes the package."""
    folder, parts = path.parent, [path.stem]
    while (folder / "__init__.py").is_file() and folder.name.isidentifier():
        folder, parts = folder.parent, [folder.name, *parts]
    if len(parts) > 1 and parts[-1].isidentifier():
        return folder, ".".join(parts)
    name = path.stem.replace("-", "_").replace(".", "_")
    name = name if name.isidentifier() else f"_{name}"
    # A file with the name of a stdlib or loaded module must not replace it.
    taken = name in sys.stdlib_module_names or (name in sys.modules and not _is_from(sys.modules[name], path))
    return path.parent, f"{name}_file" if taken else name


def _is_from(module: ModuleType, path: Path) -> bool:
    file = getattr(module, "__file__", None)
    return file is not None and Path(file).resolve() == path.resolve()


def _execute(path: Path, name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None, "a file with the suffix .py"
    assert spec.loader is not None, "a file has a loader"
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return module


def _values(text: str, value: Any, wanted: type[T], what: str) -> Sequence[T]:
    if callable(value) and not isinstance(value, wanted | type):
        value = call(text, value)
    is_many = isinstance(value, Iterable) and not isinstance(value, wanted | str)
    many: list[Any] = list(cast("Iterable[Any]", value)) if is_many else [value]
    wrong = [one for one in many if not isinstance(one, wanted)]
    if wrong or not many:
        shown = repr(wrong[0]) if wrong else "nothing"
        raise ConfigError(f"{text} returns {shown[:200]}, which is not of type {wanted.__name__}; name {what}")
    return many


def _where(error: BaseException) -> str:
    """The error with the file and line in the user's code."""
    if isinstance(error, SyntaxError):
        return f"{error.filename}, line {error.lineno}: {error.msg}"
    frames = [one for one in traceback.extract_tb(error.__traceback__) if "importlib" not in one.filename]
    own = [one for one in frames if one.filename != __file__]
    place = f"{own[-1].filename}, line {own[-1].lineno}: " if own else ""
    return f"{place}{type(error).__name__}: {error}"


class LoadedTargets(msgspec.Struct):
    """The parts of a project that the targets name, each once, in order."""

    controllers: list[Controller[Any]] = msgspec.field(default_factory=list[Controller[Any]])
    webhooks: list[Any] = msgspec.field(default_factory=list[Any])
    kinds: list[type[Object]] = msgspec.field(default_factory=list[type[Object]])
    permissions: list[Permission] = msgspec.field(default_factory=list[Permission])
    """Permissions that the project declares in addition to the inferred ones."""
    modules: list[ModuleType] = msgspec.field(default_factory=list[ModuleType])
    systems: list[System] = msgspec.field(default_factory=list[System])
    """Systems; their controllers, webhooks and kinds are also in the other lists."""

    @property
    def parts(self) -> Sequence[Part]:
        """What to run: the systems, and the controllers that belong to no system."""
        held = [one for system in self.systems for one in system.controllers]
        return [*(one for one in self.controllers if not _holds(held, one)), *self.systems]

    @property
    def loose_webhooks(self) -> Sequence[Any]:
        """The webhooks that belong to no system."""
        held = [one for system in self.systems for one in system.webhooks]
        return [one for one in self.webhooks if not _holds(held, one)]

    @property
    def hubs(self) -> Sequence[type[Object]]:
        """The hub versions of kinds with several versions, which are stored."""
        conversions = [one for one in self.webhooks if isinstance(one, Conversion)]
        return [versions[0] for versions in Conversions(conversions).kinds.values()]

    @property
    def watched_kinds(self) -> Sequence[type[Object]]:
        """The custom kinds of webhooks and of controllers and their relations; hub versions first."""
        found: dict[type[Object] | None, None] = dict.fromkeys(Webhooks(self.webhooks).kinds)
        for controller in self.controllers:
            others = [one.kind for one in controller.relations if isinstance(one, Owns | Watches | References)]
            found |= dict.fromkeys(_class_of(one) for one in (controller.kind, *others))
        return [one for one in found if one is not None and is_custom(definition_of(one).gvk.group)]

    @property
    def own_kinds(self) -> Sequence[type[Object]]:
        """The custom kinds that this project defines: those in the API groups of its controllers."""
        groups = {view_of(one.kind).gvk.group for one in self.controllers}
        groups |= {definition_of(one).gvk.group for one in self.hubs}
        every = dict.fromkeys([*self.kinds, *self.watched_kinds])
        custom = [one for one in every if is_custom(definition_of(one).gvk.group)]
        return [one for one in custom if not groups or definition_of(one).gvk.group in groups]

    def take(self, value: Any) -> bool:
        """Adds a value if it is a part of a project; returns whether it is."""
        match value:
            case Controller():
                _add(self.controllers, value)
            case AdmissionHook() | Conversion():
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


def load_targets(targets: Iterable[str]) -> LoadedTargets:
    """Loads the parts that the targets name; ConfigError if a target has none."""
    found = LoadedTargets()
    with loading("targets"):
        for target in targets:
            _load_into(found, target)
    return found


def _load_into(found: LoadedTargets, target: str) -> None:
    name, attribute = split_target(target)
    module = load_module(name)
    _add(found.modules, module)
    if attribute is None:
        taken = [found.take(value) for key, value in vars(module).items() if not key.startswith("_")]
        if not any(taken):
            raise ConfigError(f"{target} has no Controllers, webhooks or kinds")
    elif not found.take(
        _value(target, attribute_of(module, name, attribute, Controller, AdmissionHook, Conversion, System))
    ):
        raise ConfigError(f"{target} is not a Controller, a webhook or a kind, nor a list of them")


def load_controllers(targets: Iterable[str]) -> LoadedTargets:
    """As `load_targets`, but ConfigError if there is nothing to run."""
    several = tuple(targets)
    found = load_targets(several)
    if several and not found.parts:
        module, _ = split_target(several[0])
        raise ConfigError(f"{', '.join(several)} has no Controllers; name one, as in {module}:NAME")
    return found


def _value(target: str, value: Any) -> Any:
    """The value, or the result if it is a function."""
    others: tuple[type[Any], ...] = (type, Controller, AdmissionHook, Conversion, System)
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
