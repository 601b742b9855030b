"""`levelset generate crds|rbac|manifests|helm|models`: files out of types, and types out of files.

Writes generated files: only those that changed, with a line for each; or says which are out of date.

Asks a cluster for the OpenAPI document of a group and version, and makes classes of it.
"""

import asyncio
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from levelset.cli.install import read_manifests
from levelset.cli.output import Failed, Refused, output_option, show_json, speaking, working
from levelset.cli.targets import gather
from levelset.client import Call, Client
from levelset.codegen.crd import crds_of
from levelset.codegen.helm_chart import helm_chart
from levelset.codegen.installation import Installation, installation_of
from levelset.codegen.manifests import documents_of, kustomize_tree, manifests_of, write_file
from levelset.codegen.models.from_crd import models_from_crd
from levelset.codegen.models.from_openapi import models_from_openapi
from levelset.errors import ConfigError, NotFound, ServerFailed
from levelset.objects.json_tree import is_map

__all__ = ["crds", "fetch_models", "generate", "helm", "keep", "manifests", "models", "rbac"]


def keep(folder: Path, files: Mapping[str, str], *, check: bool, output: str = "text") -> None:
    """Has the folder hold these files; with `check` it writes nothing, and fails if one is missing or another."""
    stale = [path for path, text in files.items() if _read(folder / path) != text]
    word = "out of date" if check else "wrote"
    told = {str(folder / path): word if path in stale else "as it was" for path in files}
    if not check:
        for path in stale:
            _write(folder / path, files[path])
    if output == "json":
        show_json([{"file": path, "state": state} for path, state in told.items()])
    elif not check:
        for path, state in told.items():
            click.echo(f"{state}  {path}")
    elif not stale:
        click.echo(f"{len(files)} files are up to date")
    if check and stale:
        names = ", ".join(str(folder / path) for path in stale)
        raise Failed(f"out of date: {names}; run the same command without --check")


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Failed(f"{path} cannot be read: {error.strerror}") from error


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise Failed(f"{path} cannot be written: {error.strerror}") from error


async def fetch_models(client: Client, api: str, *, descriptions: bool = True) -> Mapping[str, str]:
    """The module for a group and version, by file name; ConfigError if the cluster does not serve it."""
    group, _, version = api.rpartition("/")
    path = f"apis/{api}" if group else f"api/{version}"
    if not version:
        raise ConfigError(f"{api!r} is no group and version; write for example apps/v1, or v1 for the core group")
    try:
        document = await _get(client, f"/openapi/v3/{path}")
        told: dict[str, Any] = await _get(client, f"/{path}")
        resources: list[Any] = told.get("resources") or []
    except NotFound as error:
        raise ConfigError(f"this cluster does not serve {api}; kubectl api-versions lists what it serves") from error
    return models_from_openapi(document, group=group, version=version, resources=resources, descriptions=descriptions)


async def _get(client: Client, path: str) -> Any:
    headers = {"accept": "application/json"}
    answer = await client.send(Call(method="GET", path=path, headers=headers, words=f"ask {path}"))
    try:
        document: Any = json.loads(answer.body)
    except ValueError:
        document = None
    if not is_map(document):
        raise ServerFailed(f"ask {path}: the answer is no document ({len(answer.body)} bytes); is this an API server?")
    return document


F = TypeVar("F", bound=Callable[..., Any])

_READING: Final = "loads the code and reads its types"


def _places(default: str) -> Callable[[F], F]:
    """The options that all of them have: where to write, and whether only to look."""

    def add(function: F) -> F:
        folder = click.Path(path_type=Path, file_okay=False)
        where = click.option(
            "-d", "--directory", type=folder, default=default, show_default=True, help="Where to write."
        )
        look = click.option("--check", is_flag=True, help="Write nothing; exit with 1 if a file is out of date.")
        return where(look(output_option(function)))

    return add


def _program(function: F) -> F:
    """The options that say how the program is installed."""
    for option in (
        click.option("--replicas", default=1, show_default=True, help="How many; several elect a leader."),
        click.option("--namespace", default="", help="Where it runs; NAME-system unless given."),
        click.option("--image", default="", help="Its image; NAME:latest unless given."),
        click.option("--name", required=True, help="What it is called in the cluster."),
        click.option("--version", default="0.1.0", show_default=True, help="Its version."),
        click.argument("targets", metavar="MODULE...", nargs=-1, required=True),
    ):
        function = option(function)
    return function


@click.group()
def generate() -> None:
    """Writes files out of types, and types out of files."""


@generate.command()
@click.argument("targets", metavar="MODULE...", nargs=-1, required=True)
@_places("manifests/crds")
def crds(targets: tuple[str, ...], directory: Path, check: bool, output: str) -> None:
    """Writes a CustomResourceDefinition for each kind.

    Example: levelset generate crds website
    """
    with speaking():
        with working(_READING, output=output):
            project = gather(targets)
            found = crds_of(project.own_kinds, hubs=project.hubs)
        if not found:
            raise Refused(f"{', '.join(targets)}: no kind of your own is there to be defined")
        keep(
            directory,
            {f"{one['metadata']['name']}.yaml": write_file([one]) for one in found},
            check=check,
            output=output,
        )


@generate.command()
@_program
@_places("manifests")
def rbac(directory: Path, check: bool, output: str, **program: Any) -> None:
    """Writes the Roles that allow what the controllers do, and bindings to their service account.

    Example: levelset generate rbac website --name website
    """
    with speaking():
        with working(_READING, output=output):
            made = documents_of(_installation(program))
        names = [path for path in ("rbac.yaml", "service-account.yaml") if path in made]
        keep(directory, {path: write_file(made[path]) for path in names}, check=check, output=output)


@generate.command()
@_program
@_places("manifests")
@click.option("--kustomize", is_flag=True, help="A base and an overlay for kustomize instead of plain files.")
def manifests(directory: Path, check: bool, output: str, kustomize: bool, **program: Any) -> None:
    """Writes everything that a cluster needs to run the program: definitions, roles, Deployment, webhooks.

    Example: levelset generate manifests website --name website --image registry.example.dev/website:1
    """
    with speaking():
        with working(_READING, output=output):
            made = _installation(program)
            files = kustomize_tree(made) if kustomize else manifests_of(made)
        keep(directory, files, check=check, output=output)


@generate.command()
@_program
@_places("chart")
def helm(directory: Path, check: bool, output: str, **program: Any) -> None:
    """Writes a Helm chart.

    Example: levelset generate helm website --name website --image registry.example.dev/website:1
    """
    with speaking():
        with working(_READING, output=output):
            files = helm_chart(_installation(program))
        keep(directory, files, check=check, output=output)


@generate.command()
@click.argument("files", metavar="[FILE]...", nargs=-1, type=click.Path(path_type=Path))
@click.option(
    "--group", "groups", multiple=True, metavar="GROUP/VERSION", help="Ask a cluster for these kinds instead."
)
@click.option("--kubeconfig", metavar="PATH", help="The file that says where the cluster is.")
@click.option("--context", metavar="NAME", help="The context in it.")
@click.option("--plain", is_flag=True, help="Leave the descriptions out.")
@_places(".")
def models(
    *, files: tuple[Path, ...], groups: tuple[str, ...], directory: Path, check: bool, output: str, **how: Any
) -> None:
    """Writes Python classes for the kinds of CustomResourceDefinitions, or of a cluster.

    Example: levelset generate models certificates.yaml -d src/shop
    """
    with speaking():
        if not files and not groups:
            raise Refused("say of what: files with CustomResourceDefinitions, or --group GROUP/VERSION of a cluster")
        with working("makes classes of the definitions", output=output):
            made = dict(_from_files(files, descriptions=not how["plain"]))
        if groups:
            with working(f"asks the cluster for {', '.join(groups)}", output=output):
                made |= asyncio.run(_from_cluster(groups, how))
        keep(directory, made, check=check, output=output)


def _installation(program: Mapping[str, Any]) -> Installation:

    options = dict(program)
    found = gather(options.pop("targets"))
    options["image"] = options["image"] or f"{options['name']}:latest"
    own: dict[str, Any] = {"kinds": found.own_kinds, "webhooks": found.webhooks, "extras": found.permissions}
    return installation_of(found.controllers, **own, **options)


def _from_files(files: tuple[Path, ...], *, descriptions: bool) -> Mapping[str, str]:

    made: dict[str, str] = {}
    for path in files:
        found = [one for one in read_manifests(path) if one["kind"] == "CustomResourceDefinition"]
        if not found:
            raise Refused(f"{path} holds no CustomResourceDefinition")
        for one in found:
            modules = models_from_crd(one, descriptions=descriptions)
            twice = made.keys() & modules.keys()
            if twice:
                raise Refused(f"{path}: {', '.join(sorted(twice))} would be written twice; write them into two folders")
            made |= modules
    return made


async def _from_cluster(groups: tuple[str, ...], how: Mapping[str, Any]) -> Mapping[str, str]:

    made: dict[str, str] = {}
    async with await Client.connect(how["kubeconfig"], context=how["context"]) as client:
        for group in groups:
            made |= await fetch_models(client, group, descriptions=not how["plain"])
    return made
