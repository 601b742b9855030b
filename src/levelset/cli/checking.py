"""The questions of `levelset check`: definitions, permissions, code, and what a change would break."""

import inspect
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from levelset.apiserver import ApiServer
from levelset.cli.gathering import Gathered
from levelset.cli.installing import read_manifests
from levelset.cli.linting import Complaint, blocking_calls, orphans
from levelset.client import Client
from levelset.codegen.breaking import compare_releases
from levelset.codegen.crd import crds_of
from levelset.codegen.permissions import Permission, read_permissions
from levelset.codegen.rbac import infer_permissions
from levelset.errors import ApiError, ConfigError, LevelsetError
from levelset.objects import Object
from levelset.objects.definition import definition_of

__all__ = ["check_code", "check_definitions", "check_permissions", "check_released", "definitions_of"]


def definitions_of(found: Gathered) -> tuple[list[dict[str, Any]], list[Complaint]]:
    """The definitions of a project's kinds, and a complaint for each that cannot be made."""
    names: dict[str, list[type[Object]]] = {}
    for kind in found.own_kinds:
        definition = definition_of(kind)
        names.setdefault(f"{definition.plural}.{definition.gvk.group}", []).append(kind)
    made: list[dict[str, Any]] = []
    complaints: list[Complaint] = []
    for kinds in names.values():
        try:
            made += crds_of(kinds, hubs=found.hubs)
        except LevelsetError as error:
            complaints.append(
                Complaint(_file_of(kinds[0]), _line_of(kinds[0]), "error", str(error), "change the class")
            )
    return made, complaints


async def check_definitions(definitions: Sequence[dict[str, Any]]) -> list[Complaint]:
    """What an API server says to the definitions: one is started for this, in memory."""
    found: list[Complaint] = []
    server = ApiServer()
    await server.start(listen=False)
    try:
        async with await Client.connect(server) as client:
            for one in definitions:
                try:
                    await client.create(one, dry_run=True)
                except ApiError as error:
                    name = one["metadata"]["name"]
                    found.append(
                        Complaint(name, 0, "error", f"no server takes it: {error.message}", "change the class")
                    )
    finally:
        await server.stop()
    return found


def check_released(definitions: Sequence[dict[str, Any]], released: Path) -> list[Complaint]:
    """What would break objects that were stored under the definitions that have been released."""
    before = [one for one in read_manifests(released) if one["kind"] == "CustomResourceDefinition"]
    if not before:
        raise ConfigError(f"{released} holds no CustomResourceDefinition, so nothing can be compared with it")
    return [
        Complaint(
            one.definition,
            0,
            "error" if one.is_breaking else "warning",
            " ".join(part for part in (one.version, one.path, one.problem) if part) + f": {one.why}",
            one.advice,
        )
        for one in compare_releases(before, definitions)
    ]


def check_permissions(found: Gathered, manifests: Path) -> list[Complaint]:
    """What the controllers need and the Roles in the manifests do not allow."""
    rules = read_permissions(read_manifests(manifests))
    return [
        Complaint(
            str(manifests), 0, "error", f"no Role allows {verb} {_shown(one)} ({one.why})", "levelset generate rbac"
        )
        for one in infer_permissions(found.controllers, extras=found.permissions)
        for verb in one.verbs
        if not any(_allows(rule, one, verb) for rule in rules)
    ]


def check_code(found: Gathered) -> Iterator[Complaint]:
    """What is wrong in the modules of the controllers and webhooks."""
    without = {
        one.reconcile.__name__
        for one in found.controllers
        if one.cleanup is None and hasattr(one.reconcile, "__name__")
    }
    for module in _modules_of(found):
        source, file = inspect.getsource(module), _shown_file(module)
        yield from blocking_calls(source, file)
        yield from orphans(source, file, frozenset(without))


def _modules_of(found: Gathered) -> list[ModuleType]:
    modules = {one.__name__: one for one in found.modules}
    for controller in found.controllers:
        home = inspect.getmodule(controller.reconcile)
        if home is not None:
            modules.setdefault(home.__name__, home)
    return [one for one in modules.values() if getattr(one, "__file__", None)]


def _allows(rule: Permission, one: Permission, verb: str) -> bool:
    return all(rule.allows(verb, one.group, one.resource, name, one.namespace) for name in one.names or ("",))


def _shown(one: Permission) -> str:
    return f"{one.resource}.{one.group}" if one.group else one.resource


def _file_of(kind: type[Any]) -> str:
    module = inspect.getmodule(kind)
    return kind.__module__ if module is None else _shown_file(module)


def _line_of(kind: type[Any]) -> int:
    try:
        return inspect.getsourcelines(kind)[1]
    except (OSError, TypeError):
        return 0


def _shown_file(module: ModuleType) -> str:
    path = Path(module.__file__ or module.__name__)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)
