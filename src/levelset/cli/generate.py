"""`levelset generate crds|rbac|manifests|helm|models`: generates files from types, and types from CRDs or a cluster.

Only changed files are written; with `--check` nothing is written, and the exit code is 1 if a file is outdated.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from levelset.cli.commands import CommandGroup
from levelset.cli.install import read_manifests
from levelset.cli.output import CommandFailed, UsageError, output_option, progress, reporting_errors, show_json
from levelset.cli.targets import load_targets
from levelset.client import Call, Client
from levelset.codegen.crd import crds_of
from levelset.codegen.helm_chart import helm_chart
from levelset.codegen.installation import Installation, installation_of
from levelset.codegen.manifests import documents_of, kustomize_tree, manifests_of, write_file
from levelset.codegen.models.from_crd import models_from_crd
from levelset.codegen.models.from_openapi import models_from_openapi
from levelset.errors import ConfigError, NotFound, ServerFailed
from levelset.objects.json_tree import is_map

__all__ = ["crds", "fetch_models", "generate", "helm", "manifests", "models", "rbac", "write_files"]


def write_files(folder: Path, files: Mapping[str, str], *, check: bool, output: str = "text") -> None:
    """Writes the files that changed; with `check` writes nothing, and raises CommandFailed if one is outdated."""
    stale = [path for path, text in files.items() if _read(folder / path) != text]
    word = "out of date" if check else "wrote"
    states = {str(folder / path): word if path in stale else "unchanged" for path in files}
    if not check:
        for path in stale:
            _write(folder / path, files[path])
    if output == "json":
        show_json([{"file": path, "state": state} for path, state in states.items()])
    elif not check:
        for path, state in states.items():
            click.echo(f"{state}  {path}")
    elif not stale:
        click.echo(f"{len(files)} files are up to date")
    if check and stale:
        names = ", ".join(str(folder / path) for path in stale)
        raise CommandFailed(f"out of date: {names}; run the same command without --check")


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CommandFailed(f"{path} cannot be read: {error.strerror}") from error


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise CommandFailed(f"{path} cannot be written: {error.strerror}") from error


async def fetch_models(client: Client, api: str, *, descriptions: bool = True) -> Mapping[str, str]:
    """The generated module of a group and version, by file name; ConfigError if the cluster does not serve it."""
    group, _, version = api.rpartition("/")
    path = f"apis/{api}" if group else f"api/{version}"
    if not version:
        raise ConfigError(f"{api!r} is not a group and version; write for example apps/v1, or v1 for the core group")
    try:
        document = await _get(client, f"/openapi/v3/{path}")
        discovery: dict[str, Any] = await _get(client, f"/{path}")
        resources: list[Any] = discovery.get("resources") or []
    except NotFound as error:
        raise ConfigError(f"this cluster does not serve {api}; kubectl api-versions lists what it serves") from error
    return models_from_openapi(document, group=group, version=version, resources=resources, descriptions=descriptions)


async def _get(client: Client, path: str) -> Any:
    headers = {"accept": "application/json"}
    response = await client.send(Call(method="GET", path=path, headers=headers, about=f"get {path}"))
    try:
        document: Any = json.loads(response.body)
    except ValueError:
        document = None
    if not is_map(document):
        raise ServerFailed(
            f"get {path}: the response is not a JSON object ({len(response.body)} bytes); is this an API server?"
        )
    return document


F = TypeVar("F", bound=Callable[..., Any])

_LOADING: Final = "importing the code"


def _output_options(default: str) -> Callable[[F], F]:
    """The common options: the output directory and `--check`."""

    def add(function: F) -> F:
        folder = click.Path(path_type=Path, file_okay=False)
        directory = click.option(
            "-d", "--directory", type=folder, default=default, show_default=True, help="Where to write."
        )
        check = click.option("--check", is_flag=True, help="Write nothing; exit with 1 if a file is out of date.")
        return directory(check(output_option(function)))

    return add


def _install_options(function: F) -> F:
    """The options of the installation."""
    for option in (
        click.option("--shards", is_flag=True, help="All replicas work and share the objects, instead of one."),
        click.option(
            "--replicas", default=1, show_default=True, help="The number of replicas; one leads, the others wait."
        ),
        click.option("--namespace", default="", help="The namespace; NAME-system unless given."),
        click.option("--image", default="", help="The container image; NAME:latest unless given."),
        click.option("--name", required=True, help="The name of the Deployment and its other objects."),
        click.option("--version", default="0.1.0", show_default=True, help="The version of the operator."),
        click.argument("targets", metavar="MODULE...", nargs=-1, required=True),
    ):
        function = option(function)
    return function


@click.group(cls=CommandGroup)
def generate() -> None:
    """Generates CRDs, RBAC, manifests, Helm charts and Python models.

    Example: levelset generate crds website
    """


@generate.command()
@click.argument("targets", metavar="MODULE...", nargs=-1, required=True)
@_output_options("manifests/crds")
def crds(targets: tuple[str, ...], directory: Path, check: bool, output: str) -> None:
    """Writes a CustomResourceDefinition for each kind.

    Example: levelset generate crds website
    """
    with reporting_errors():
        with progress(_LOADING, output=output):
            project = load_targets(targets)
            found = crds_of(project.own_kinds, hubs=project.hubs)
        if not found:
            raise UsageError(f"{', '.join(targets)}: there is no custom kind to generate a CRD for")
        write_files(
            directory,
            {f"{one['metadata']['name']}.yaml": write_file([one]) for one in found},
            check=check,
            output=output,
        )


@generate.command()
@_install_options
@_output_options("manifests")
def rbac(directory: Path, check: bool, output: str, **program: Any) -> None:
    """Writes the Roles that the controllers need, and their bindings to the service account.

    Example: levelset generate rbac website --name website
    """
    with reporting_errors():
        with progress(_LOADING, output=output):
            made = documents_of(_installation(program))
        names = [path for path in ("rbac.yaml", "service-account.yaml") if path in made]
        write_files(directory, {path: write_file(made[path]) for path in names}, check=check, output=output)


@generate.command()
@_install_options
@_output_options("manifests")
@click.option("--kustomize", is_flag=True, help="Write a kustomize base and overlay instead of plain files.")
def manifests(directory: Path, check: bool, output: str, kustomize: bool, **program: Any) -> None:
    """Writes all manifests of the operator: CRDs, RBAC, Deployment, Service, webhooks.

    Example: levelset generate manifests website --name website --image registry.example.dev/website:1
    """
    with reporting_errors():
        with progress(_LOADING, output=output):
            made = _installation(program)
            files = kustomize_tree(made) if kustomize else manifests_of(made)
        write_files(directory, files, check=check, output=output)


@generate.command()
@_install_options
@_output_options("chart")
def helm(directory: Path, check: bool, output: str, **program: Any) -> None:
    """Writes a Helm chart.

    Example: levelset generate helm website --name website --image registry.example.dev/website:1
    """
    with reporting_errors():
        with progress(_LOADING, output=output):
            files = helm_chart(_installation(program))
        write_files(directory, files, check=check, output=output)


@generate.command()
@click.argument("files", metavar="[FILE]...", nargs=-1, type=click.Path(path_type=Path))
@click.option(
    "--group", "groups", multiple=True, metavar="GROUP/VERSION", help="Read these kinds from a cluster instead."
)
@click.option("--kubeconfig", metavar="PATH", help="The kubeconfig file.")
@click.option("--context", metavar="NAME", help="The kubeconfig context.")
@click.option("--plain", is_flag=True, help="Leave out the descriptions.")
@_output_options(".")
def models(
    *, files: tuple[Path, ...], groups: tuple[str, ...], directory: Path, check: bool, output: str, **how: Any
) -> None:
    """Writes Python classes for the kinds of CustomResourceDefinitions, or of a cluster.

    Example: levelset generate models certificates.yaml -d src/shop
    """
    with reporting_errors():
        if not files and not groups:
            raise UsageError(
                "nothing to generate from: pass files with CustomResourceDefinitions, or --group GROUP/VERSION"
            )
        with progress("generating models", output=output):
            made = dict(_from_files(files, descriptions=not how["plain"]))
        if groups:
            with progress(f"reading from the cluster: {', '.join(groups)}", output=output):
                made |= asyncio.run(_from_cluster(groups, how))
        write_files(directory, made, check=check, output=output)


def _installation(program: Mapping[str, Any]) -> Installation:
    options = dict(program)
    found = load_targets(options.pop("targets"))
    options["image"] = options["image"] or f"{options['name']}:latest"
    own: dict[str, Any] = {"kinds": found.own_kinds, "webhooks": found.webhooks, "extras": found.permissions}
    return installation_of(found.controllers, **own, **options)


def _from_files(files: tuple[Path, ...], *, descriptions: bool) -> Mapping[str, str]:
    documents: list[tuple[Path, Mapping[str, Any]]] = []
    for path in files:
        found = [one for one in read_manifests(path) if one["kind"] == "CustomResourceDefinition"]
        if not found:
            raise UsageError(f"{path} contains no CustomResourceDefinition")
        documents += [(path, one) for one in found]
    plain = [models_from_crd(one, descriptions=descriptions) for _, one in documents]
    uses = Counter(name for modules in plain for name in modules)
    made: dict[str, str] = {}
    for (path, document), modules in zip(documents, plain, strict=True):
        chosen = modules
        if any(uses[name] > 1 for name in modules):  # two groups share a resource
            chosen = models_from_crd(document, descriptions=descriptions, with_group=True)
        twice = made.keys() & chosen.keys()
        if twice:
            raise UsageError(f"{path}: {', '.join(sorted(twice))} would be written twice: it is given more than once")
        made |= chosen
    return made


async def _from_cluster(groups: tuple[str, ...], how: Mapping[str, Any]) -> Mapping[str, str]:
    made: dict[str, str] = {}
    async with await Client.connect(how["kubeconfig"], context=how["context"]) as client:
        for group in groups:
            made |= await fetch_models(client, group, descriptions=not how["plain"])
    return made
