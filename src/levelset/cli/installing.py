"""Applies manifests in an order that works, and deletes them in the other; tells line by line what came of each."""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from levelset.cli.awaiting import Doing, seconds_left, wait_rollout
from levelset.cli.rollouts import is_rolled_out
from levelset.client.client import Client
from levelset.errors import ConfigError, Malformed, NotFound, UnknownKind
from levelset.manager.definitions import is_established
from levelset.objects import GroupVersionKind, Ref, Unstructured
from levelset.objects.trees import is_list, is_map
from levelset.objects.yamltext import read_yaml

__all__ = ["Step", "in_order", "install_all", "objects_at_stake", "read_manifests", "uninstall_all"]

Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Step:
    """What came of one object."""

    object: str
    change: str

    def __str__(self) -> str:
        return f"{self.object}: {self.change}"


_FIRST: Final = (
    "Namespace",
    "CustomResourceDefinition",
    "PriorityClass",
    "StorageClass",
    "ServiceAccount",
    "Secret",
    "ConfigMap",
    "ClusterRole",
    "ClusterRoleBinding",
    "Role",
    "RoleBinding",
    "NetworkPolicy",
    "Service",
)
"""What others need is applied before them; webhooks come last, for they would refuse before they can answer."""
_LAST: Final = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
_DEFINITION: Final = "CustomResourceDefinition"
_MANAGER: Final = "levelset"
_SUFFIXES: Final = (".yaml", ".yml", ".json")


def read_manifests(path: Path) -> list[dict[str, Any]]:
    """The documents of a file, or of all files of a folder; ConfigError names the file and what is wrong with it.

    The items of a `List` are taken one by one. What stands there twice, as a folder may hold everything once more in
    one file, is taken once.
    """
    if path.is_dir():
        files = sorted(one for one in path.rglob("*") if one.suffix in _SUFFIXES and one.name != "kustomization.yaml")
        if not files:
            raise ConfigError(f"{path} holds no manifests, that is, no files that end with {', '.join(_SUFFIXES)}")
        return _once(document for one in files for document in read_manifests(one))
    try:
        documents = read_yaml(path.read_bytes())
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    except Malformed as error:
        raise ConfigError(f"{path}: {error}") from error
    found = [(number, one) for number, document in enumerate(documents, 1) for one in _unfold(document)]
    if not found:
        raise ConfigError(f"{path} holds no manifests: there is nothing in it")
    return _once(_checked(path, number, one) for number, one in found)


def in_order(documents: Sequence[Document]) -> list[Document]:
    """The same in an order that works; those of equal rank stay as they are."""

    def rank(document: Document) -> int:
        kind = document["kind"]
        return _FIRST.index(kind) if kind in _FIRST else len(_FIRST) + (kind in _LAST)

    return sorted(documents, key=rank)


async def install_all(
    client: Client,
    documents: Sequence[Document],
    *,
    within: float,
    dry_run: bool = False,
    wait: bool = True,
    doing: Doing | None = None,
) -> AsyncGenerator[Step, None]:
    """Applies all; after each, a step that says whether it was made, changed or as it should be already.

    Then, if it is to `wait`, a step for each Deployment and the like that has come to run; Failed if that takes
    longer than `within` seconds in all, or never will. Deadline if a definition is not served by then.
    """
    now = doing or Doing()
    until = asyncio.get_running_loop().time() + within
    rollouts: list[Ref[Unstructured]] = []
    now.steps = len(documents)
    for document in in_order(documents):
        ref = _ref(document)
        now.what = f"applies {ref}"
        before = await _find(client, ref)
        after = await client.apply(document, force=True, manager=_MANAGER, dry_run=dry_run)
        if document["kind"] == _DEFINITION and not dry_run:
            now.what = f"waits until {ref} is served"
            await client.wait(ref, is_established, within=seconds_left(until))
        elif wait and not dry_run and is_rolled_out(document["apiVersion"], document["kind"]):
            rollouts.append(Ref(ref.gvk, ref.name, after.metadata.namespace))
        yield Step(str(ref), _change(before, after) + (" (dry run)" if dry_run else ""))
    now.steps += len(rollouts)
    for ref in rollouts:
        yield Step(str(ref), await wait_rollout(client, ref, doing=now, until=until, within=within))


async def uninstall_all(
    client: Client, documents: Sequence[Document], *, within: float, doing: Doing | None = None
) -> AsyncGenerator[Step, None]:
    """Deletes all, the last first; after each, a step that says whether it was there."""
    now = doing or Doing()
    now.steps = len(documents)
    for document in reversed(in_order(documents)):
        ref = _ref(document)
        now.what = f"waits until {ref} is gone"
        try:
            await client.delete(ref, propagation="Background")
        except (NotFound, UnknownKind):
            yield Step(str(ref), "was not there")
            continue
        await client.wait_gone(ref, within=within)
        yield Step(str(ref), "deleted")


async def objects_at_stake(client: Client, documents: Sequence[Document]) -> Sequence[str]:
    """How many objects would go with their definitions, kind by kind: `3 websites.example.dev`."""
    found: list[str] = []
    for document in documents:
        if document["kind"] != _DEFINITION:
            continue
        kind = _defined(document)
        if kind is None:
            continue
        try:
            items = await client.list(kind, limit=500)
        except (NotFound, UnknownKind):
            continue
        count = len(items) + (items.remaining or 0)
        if count:
            found.append(f"{count} {document['metadata']['name']}")
    return found


def _defined(definition: Document) -> GroupVersionKind | None:
    """The kind of a definition, in a version that is served; None if it does not say, so that no server has it."""
    try:
        spec = definition["spec"]
        version = next((one["name"] for one in spec["versions"] if one.get("served")), None)
        return None if version is None else GroupVersionKind(spec["group"], version, spec["names"]["kind"])
    except (KeyError, TypeError, AttributeError, Malformed):
        return None


async def _find(client: Client, ref: Ref[Unstructured]) -> Unstructured | None:
    try:
        return await client.find(ref)
    except UnknownKind:
        return None


def _change(before: Unstructured | None, after: Unstructured) -> str:
    if before is None:
        return "made"
    return "unchanged" if before.metadata.resource_version == after.metadata.resource_version else "changed"


def _ref(document: Document) -> Ref[Unstructured]:
    gvk = GroupVersionKind.of(document["apiVersion"], document["kind"])
    return Ref(gvk, document["metadata"]["name"], document["metadata"].get("namespace"))


def _unfold(document: Any) -> Iterator[Any]:
    if is_map(document) and document.get("kind") == "List" and is_list(document.get("items")):
        for item in document["items"]:
            yield from _unfold(item)
    elif document is not None:
        yield document


def _once(documents: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for one in documents:
        if one not in found:
            found.append(one)
    return found


def _checked(path: Path, number: int, document: Any) -> dict[str, Any]:
    names = ("apiVersion", "kind", "metadata")
    if not is_map(document) or not all(name in document for name in names):
        raise ConfigError(f"{path}, document {number} is no manifest: it needs {', '.join(names)}")
    metadata = document["metadata"]
    if not is_map(metadata) or not metadata.get("name"):
        raise ConfigError(f"{path}, document {number} ({document['kind']}) has no metadata.name")
    try:
        GroupVersionKind.of(document["apiVersion"], document["kind"])
    except Malformed as error:
        raise ConfigError(f"{path}, document {number}: {error}") from error
    for name in ("name", "namespace"):
        if not isinstance(metadata.get(name, ""), str):
            raise ConfigError(f"{path}, document {number}: metadata.{name} {metadata[name]!r} is no text; quote it")
    return document
