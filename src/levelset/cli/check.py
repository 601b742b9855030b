"""`levelset check`: static checks of a project's code, CRDs and manifests.

- CRDs: an in-memory API server must accept them, and they must not break objects stored under the released ones.
- Roles in the manifests must allow everything that the controllers do, and what they do must be found in their code.
- A Deployment in the manifests with several replicas must use leader election.
- Code: calls that block the event loop or are not awaited, reads of kinds that are not cached, and children without an
  owner. Only the source is read, nothing is run; a line
  that ends with `# levelset: ignore` is skipped.
"""

import ast
import asyncio
import inspect
import linecache
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Final, Literal

import click

from levelset.apiserver import ApiServer
from levelset.cli.install import read_manifests
from levelset.cli.output import output_option, progress, reporting_errors, show_json
from levelset.cli.targets import LoadedTargets, load_targets
from levelset.client import Client
from levelset.client.object_types import OnlyMetadata, view_of
from levelset.codegen.breaking_changes import compare_releases
from levelset.codegen.crd import crds_of
from levelset.codegen.rbac import Permission, cached_reads, infer_permissions, read_permissions, unfollowed_calls
from levelset.errors import ApiError, ConfigError, LevelsetError
from levelset.objects import Object
from levelset.objects.kind_definition import definition_of
from levelset.runtime.controller.relations import Owns, References, Watches

__all__ = [
    "BLOCKING",
    "Diagnostic",
    "Level",
    "blocking_calls",
    "check",
    "check_code",
    "check_definitions",
    "check_followed",
    "check_leader_election",
    "check_permissions",
    "check_reads",
    "check_released",
    "definitions_of",
    "ownerless_children",
    "unawaited_calls",
]

Level = Literal["error", "warning"]

BLOCKING: Final[Mapping[str, str]] = {
    "time.sleep": "await asyncio.sleep(...), or return requeue(seconds)",
    "open": "await asyncio.to_thread(...)",
    "input": "no input: a controller has no terminal",
    "os.system": "await asyncio.create_subprocess_exec(...)",
    "os.popen": "await asyncio.create_subprocess_exec(...)",
    "os.waitpid": "await asyncio.create_subprocess_exec(...)",
    "subprocess.run": "await asyncio.create_subprocess_exec(...)",
    "subprocess.call": "await asyncio.create_subprocess_exec(...)",
    "subprocess.check_call": "await asyncio.create_subprocess_exec(...)",
    "subprocess.check_output": "await asyncio.create_subprocess_exec(...)",
    "subprocess.Popen": "await asyncio.create_subprocess_exec(...)",
    "socket.create_connection": "await asyncio.open_connection(...)",
    "socket.getaddrinfo": "await loop.getaddrinfo(...)",
    "socket.gethostbyname": "await loop.getaddrinfo(...)",
    "urllib.request.urlopen": "an async HTTP client, or await asyncio.to_thread(...)",
    "sqlite3.connect": "await asyncio.to_thread(...)",
    "shutil.rmtree": "await asyncio.to_thread(...)",
    "shutil.copytree": "await asyncio.to_thread(...)",
}
"""Calls that block the event loop, by their full names, and what to write instead."""

_MODULES: Final = {
    "requests": "an async HTTP client, or await asyncio.to_thread(...)",
    "httpx": "httpx.AsyncClient, or await asyncio.to_thread(...)",
}
_HTTP_FUNCTIONS: Final = frozenset(
    {"get", "post", "put", "patch", "delete", "head", "options", "request", "Client", "Session"}
)
_AWAITED: Final = frozenset(["apply", "create", "delete", "patch", "save", "set_condition", "set_status", "update"])
_IGNORE: Final = "# levelset: ignore"


@dataclass(frozen=True, slots=True, order=True)
class Diagnostic:
    """One problem: where it is, what it is, and what to do next."""

    file: str
    line: int
    level: Level
    problem: str
    next: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}: " if self.line else f"{self.file}: "
        return f"{place}{self.level}: {self.problem}; {self.next}"


def blocking_calls(source: str, file: str) -> list[Diagnostic]:
    """The calls inside async functions that block the event loop."""
    tree = ast.parse(source, file)
    names, lines = _imported(tree), source.splitlines()
    found: list[Diagnostic] = []
    for function in ast.walk(tree):
        if isinstance(function, ast.AsyncFunctionDef):
            for call in _own_calls(function):
                name = _full_name(call.func, names)
                advice = _advice(name)
                if advice is not None and _IGNORE not in lines[call.lineno - 1]:
                    problem = f"{name}() in async {function.name} blocks the event loop"
                    found.append(Diagnostic(file, call.lineno, "error", problem, f"write {advice}"))
    return sorted(set(found))


def unawaited_calls(source: str, file: str) -> list[Diagnostic]:
    """The writes of a Context that are made as statements without `await`, so that nothing is sent."""
    lines = source.splitlines()
    found: list[Diagnostic] = []
    for node in ast.walk(ast.parse(source, file)):
        match node:
            case ast.Expr(ast.Call(ast.Attribute(ast.Name("ctx" | "context" as name), verb))) if verb in _AWAITED:
                if _IGNORE not in lines[node.lineno - 1]:
                    problem = f"{name}.{verb}() is not awaited, so that nothing is sent"
                    found.append(Diagnostic(file, node.lineno, "error", problem, f"write await {name}.{verb}(...)"))
            case _:
                pass
    return found


def ownerless_children(source: str, file: str, functions: frozenset[str]) -> list[Diagnostic]:
    """The children that these functions create without an owner, so that they are not garbage collected."""
    tree = ast.parse(source, file)
    lines = source.splitlines()
    found: list[Diagnostic] = []
    for function in ast.walk(tree):
        if not isinstance(function, ast.AsyncFunctionDef) or function.name not in functions:
            continue
        for call in _own_calls(function):
            made = call.func
            if not isinstance(made, ast.Attribute) or made.attr not in {"apply", "create"}:
                continue
            if not isinstance(made.value, ast.Name) or made.value.id not in {"ctx", "context"}:
                continue
            if not any(one.arg in {"owner", None} for one in call.keywords) and _IGNORE not in lines[call.lineno - 1]:
                what = "creates a child without an owner, and the Controller has no cleanup"
                problem = f"ctx.{made.attr} in {function.name} {what}"
                found.append(
                    Diagnostic(
                        file, call.lineno, "warning", problem, "pass owner=, or add a cleanup= to the Controller"
                    )
                )
    return found


def _advice(name: str) -> str | None:
    if name in BLOCKING:
        return BLOCKING[name]
    module, _, word = name.partition(".")
    return _MODULES[module] if module in _MODULES and word in _HTTP_FUNCTIONS else None


def _own_calls(function: ast.AsyncFunctionDef) -> Iterator[ast.Call]:
    """The calls of a function itself, without those of nested functions, which may run in a thread."""
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            continue
        if isinstance(node, ast.Call):
            yield node
        waiting += ast.iter_child_nodes(node)


def _imported(tree: ast.AST) -> dict[str, str]:
    """The full names of imported names: `time.sleep` for `sleep` after `from time import sleep`."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for one in node.names:
                names[one.asname or one.name.partition(".")[0]] = one.name if one.asname else one.name.partition(".")[0]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names |= {one.asname or one.name: f"{node.module}.{one.name}" for one in node.names}
    return names


def _full_name(node: ast.expr, names: Mapping[str, str]) -> str:
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return ""
    return ".".join([names.get(node.id, node.id), *reversed(parts)])


def definitions_of(found: LoadedTargets) -> tuple[list[dict[str, Any]], list[Diagnostic]]:
    """The CRDs of a project's kinds, and a diagnostic for each that cannot be generated."""
    names: dict[str, list[type[Object]]] = {}
    for kind in found.own_kinds:
        definition = definition_of(kind)
        names.setdefault(f"{definition.plural}.{definition.gvk.group}", []).append(kind)
    made: list[dict[str, Any]] = []
    diagnostics: list[Diagnostic] = []
    for kinds in names.values():
        try:
            made += crds_of(kinds, hubs=found.hubs)
        except LevelsetError as error:
            diagnostics.append(
                Diagnostic(_file_of(kinds[0]), _line_of(kinds[0]), "error", str(error), "change the class")
            )
    return made, diagnostics


async def check_definitions(definitions: Sequence[dict[str, Any]]) -> list[Diagnostic]:
    """Validates the CRDs with a dry run on an in-memory API server."""
    found: list[Diagnostic] = []
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
                        Diagnostic(name, 0, "error", f"the API server rejects it: {error.message}", "change the class")
                    )
    finally:
        await server.stop()
    return found


def check_released(definitions: Sequence[dict[str, Any]], released: Path) -> list[Diagnostic]:
    """Changes that break objects stored under the released CRDs."""
    before = [one for one in read_manifests(released) if one["kind"] == "CustomResourceDefinition"]
    if not before:
        raise ConfigError(f"{released} contains no CustomResourceDefinition to compare with")
    return [
        Diagnostic(
            one.definition,
            0,
            "error" if one.is_breaking else "warning",
            " ".join(part for part in (one.version, one.path, one.problem) if part) + f": {one.why}",
            one.advice,
        )
        for one in compare_releases(before, definitions)
    ]


def check_permissions(found: LoadedTargets, manifests: Path) -> list[Diagnostic]:
    """Permissions that the controllers need and the Roles in the manifests do not grant."""
    rules = read_permissions(read_manifests(manifests))
    return [
        Diagnostic(
            str(manifests), 0, "error", f"no Role allows {verb} {_shown(one)} ({one.why})", "levelset generate rbac"
        )
        for one in infer_permissions(found.controllers, extras=found.permissions)
        for verb in one.verbs
        if not any(_allows(rule, one, verb) for rule in rules)
    ]


def check_leader_election(found: LoadedTargets, manifests: Path) -> list[Diagnostic]:
    """Deployments of the operator whose replicas would all reconcile, since they do not elect a leader."""
    if not any(one.leader_only for one in found.controllers):
        return []
    objects = read_manifests(manifests)
    several = [one for one in _operator_deployments(objects) if (one["spec"].get("replicas") or 1) > 1]
    return [
        Diagnostic(
            str(manifests),
            0,
            "error",
            f"Deployment {one['metadata']['name']} has {one['spec']['replicas']} replicas and no leader election, so "
            "that each of them reconciles everything",
            f"add --leader={one['metadata']['name']} to its args (or --shards=, to share the objects), or run levelset "
            "generate manifests",
        )
        for one in several
        if not any(word.partition("=")[0] in {"--leader", "--shards"} for word in _command_words(one))
    ]


def _operator_deployments(objects: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The Deployments whose service account gets permissions from these manifests: other workloads need none."""
    bindings = [one for one in objects if one["kind"] in {"ClusterRoleBinding", "RoleBinding"}]
    accounts = {subject["name"] for one in bindings for subject in one.get("subjects") or ()}
    for one in objects:
        if one["kind"] == "Deployment" and _pod_spec(one).get("serviceAccountName") in accounts:
            yield one


def _command_words(deployment: dict[str, Any]) -> Iterator[str]:
    for container in _pod_spec(deployment).get("containers") or ():
        yield from (*(container.get("command") or ()), *(container.get("args") or ()))


def _pod_spec(deployment: dict[str, Any]) -> dict[str, Any]:
    """The spec of its Pods; empty if the manifest has none, which the API server rejects."""
    found, nothing = deployment, dict[str, Any]()
    for name in ("spec", "template", "spec"):
        found = found.get(name) or nothing
    return found


def check_followed(found: LoadedTargets) -> list[Diagnostic]:
    """Calls that get the Context and whose code is not known, so that no permissions can be inferred from them."""
    calls = {one for controller in found.controllers for one in unfollowed_calls(controller)}
    advice = f'declare its permissions with permit(...) in the module, and end the line with "{_IGNORE}"'
    return [
        Diagnostic(
            _shown_path(one.file), one.line, "error", f"could not follow {one.what} to infer permissions", advice
        )
        for one in sorted(calls)
        if _IGNORE not in linecache.getline(one.file, one.line)
    ]


def check_reads(found: LoadedTargets) -> list[Diagnostic]:
    """Reads from the cache of kinds that no controller has a relation to, which raise NotCached at run time."""
    relations = [one for controller in found.controllers for one in controller.relations]
    watched = [one.kind for one in relations if isinstance(one, Owns | Watches | References)]
    declared = [*(one.kind for one in found.controllers), *watched]
    whole = {view_of(one).gvk for one in declared if not isinstance(one, OnlyMetadata)}
    metadata = {view_of(one).gvk for one in declared} - whole
    diagnostics: list[Diagnostic] = []
    for one in {one: None for controller in found.controllers for one in cached_reads(controller)}:
        gvk = view_of(one.kind).gvk
        if gvk in whole or _IGNORE in linecache.getline(one.file, one.line):
            continue
        if gvk not in metadata:
            why, advice = f"no relation declares {gvk.kind}", f"add owns({gvk.kind}), watches({gvk.kind}, to=...) or"
        elif "OnlyMetadata" not in "".join(linecache.getlines(one.file)):
            why, advice = f"only the metadata of {gvk.kind} is cached", "leave out metadata_only=True, or"
        else:
            continue
        problem = f"{one.what} raises NotCached: {why}"
        diagnostics.append(Diagnostic(_shown_path(one.file), one.line, "error", problem, f'{advice} read="live"'))
    return diagnostics


def check_code(found: LoadedTargets) -> Iterator[Diagnostic]:
    """Problems in the modules of the controllers and webhooks."""
    without = {
        one.reconcile.__name__
        for one in found.controllers
        if one.cleanup is None and hasattr(one.reconcile, "__name__")
    }
    for module in _modules_of(found):
        source, file = inspect.getsource(module), _shown_file(module)
        yield from blocking_calls(source, file)
        yield from unawaited_calls(source, file)
        yield from ownerless_children(source, file, frozenset(without))


def _modules_of(found: LoadedTargets) -> list[ModuleType]:
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
    return _shown_path(module.__file__ or module.__name__)


def _shown_path(file: str) -> str:
    path = Path(file)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


@click.command()
@click.argument("targets", metavar="MODULE...", nargs=-1, required=True)
@click.option(
    "--released",
    type=click.Path(path_type=Path, exists=True),
    help="The CRDs of the last release: a change that breaks objects stored under them is an error.",
)
@click.option(
    "--manifests",
    type=click.Path(path_type=Path, exists=True),
    help="Manifests whose Roles must grant everything that the controllers do, and whose replicas elect a leader.",
)
@output_option
def check(targets: tuple[str, ...], released: Path | None, manifests: Path | None, output: str) -> None:
    """Checks a project: CRDs, RBAC, the code of reconcilers, and changes that break stored objects.

    Example: levelset check website --released released/crds --manifests manifests

    Exit codes: 0 no errors (maybe warnings), 1 errors, 2 usage error.
    """
    with reporting_errors(), progress("checking CRDs, code and manifests", output=output):
        found = _check(targets, released, manifests)
    if output == "json":
        names = ("file", "line", "level", "problem", "next")
        show_json([{name: getattr(one, name) for name in names} for one in found])
    else:
        for one in found:
            click.echo(str(one))
        errors = sum(one.level == "error" for one in found)
        click.echo(f"{errors} errors, {len(found) - errors} warnings" if found else "no problems found")
    if any(one.level == "error" for one in found):
        raise SystemExit(1)


def _check(targets: tuple[str, ...], released: Path | None, manifests: Path | None) -> list[Diagnostic]:
    project = load_targets(targets)
    definitions, found = definitions_of(project)
    found += asyncio.run(check_definitions(definitions))
    found += check_code(project)
    found += check_followed(project)
    found += check_reads(project)
    if released is not None:
        found += check_released(definitions, released)
    if manifests is not None:
        found += check_permissions(project, manifests)
        found += check_leader_election(project, manifests)
    return found
