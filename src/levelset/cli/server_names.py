"""Names of kinds, objects and namespaces from the API server, for arguments of commands and their completion.

A completion is an aid: it has two seconds, and says nothing where there is no server.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click
from click.shell_completion import CompletionItem

from levelset.errors import LevelsetError
from levelset.objects.ref import GroupVersionKind

if TYPE_CHECKING:
    from levelset.client import Client
    from levelset.client.discovery import ApiResource
    from levelset.client.rest_mapper import RestMapper

__all__ = [
    "complete_namespaces",
    "complete_objects",
    "find_kind",
    "kubeconfig_options",
    "object_argument",
    "server_kubeconfig",
]

F = TypeVar("F", bound=Callable[..., Any])

_PATIENCE: Final = 2.0
_MOST_NAMES: Final = 200


def kubeconfig_options(function: F) -> F:
    """Adds `--kubeconfig` and `--context` of a command that finds a local server without them."""
    text = "The kubeconfig file; by default $KUBECONFIG, levelset.kubeconfig here, ~/.kube/config."
    context = click.option("--context", metavar="NAME", help="The kubeconfig context.")
    return click.option("--kubeconfig", metavar="PATH", help=text)(context(function))


def server_kubeconfig(given: str | None) -> str | None:
    """The kubeconfig of these options: that of a local server in this folder, if nothing else is chosen."""
    if given or os.environ.get("KUBECONFIG"):
        return given
    from levelset.runtime.manager.local_server import KUBECONFIG  # noqa: PLC0415  # imported late: the help needs none

    return KUBECONFIG if Path(KUBECONFIG).is_file() else None


async def find_kind(client: "Client", word: str) -> "ApiResource":
    """The resource that a user means by a word such as `pod`, `deploy` or `websites.example.dev`."""
    return await _mapper(client).find(word)


def complete_namespaces(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The namespaces that begin so."""
    return _items(_query(ctx, _namespaces), incomplete)


def complete_objects(
    ctx: click.Context,
    _: click.Parameter,
    incomplete: str,
    *,
    subresource: str | None = None,
    kind_of_names: str | None = None,
) -> list[CompletionItem]:
    """The kinds that begin so, or after `KIND/` the names of its objects; of one kind alone its objects at once.

    With `subresource` only kinds that have it; with `kind_of_names` also the names of the objects of that kind.
    """
    kind: str = ctx.params.get("thing") or ""
    if "/" in kind:
        return []  # the object is whole
    before = f"{kind}/" if kind else ""  # the kind is a word of its own

    async def find(client: "Client") -> Sequence[str]:
        namespace = ctx.params.get("namespace")
        found = [
            one.removeprefix(before) for one in await _objects(client, before + incomplete, namespace, subresource)
        ]
        if kind_of_names is None or kind or "/" in incomplete:
            return found
        return sorted([*found, *await _names_alone(client, kind_of_names, namespace)])

    return _items(_query(ctx, find), incomplete)


def object_argument(*, subresource: str | None = None, kind_of_names: str | None = None) -> Callable[[F], F]:
    """Adds the argument KIND/NAME, passed as `thing`; two words are accepted as well, as kubectl does.

    With `subresource` only kinds that have it are completed, and with `kind_of_names` names of that kind as well.
    """
    return click.argument(
        "thing",
        metavar="KIND/NAME",
        nargs=-1,
        required=True,
        callback=_joined,
        shell_complete=partial(complete_objects, subresource=subresource, kind_of_names=kind_of_names),
    )


def _joined(ctx: click.Context, argument: click.Parameter, words: tuple[str, ...]) -> str:
    if len(words) > 2 or (len(words) == 2 and "/" in words[0]):
        if ctx.resilient_parsing:
            return "/"
        raise click.BadParameter(f"one object at a time, as in pod/web; got {' '.join(words)}", param=argument)
    return "/".join(words)


def _items(found: Sequence[str], incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(one) for one in found if one.startswith(incomplete)]


async def _namespaces(client: "Client") -> Sequence[str]:
    from levelset.client import OnlyMetadata  # noqa: PLC0415  # imported late: the help needs none

    page = await client.list(OnlyMetadata(GroupVersionKind("", "v1", "Namespace")), limit=_MOST_NAMES)
    return [one.metadata.name for one in page]


async def _objects(client: "Client", incomplete: str, namespace: str | None, subresource: str | None) -> Sequence[str]:
    from levelset.client import OnlyMetadata  # noqa: PLC0415  # as above

    word, slash, _ = incomplete.partition("/")
    if not slash:
        all_ = await _mapper(client).resources()
        kinds = sorted({_word(one) for one in all_ if "list" in one.verbs and _has(one, subresource)})
        kinds = [one for one in kinds if one.startswith(word)]
        if len(kinds) != 1:
            return [f"{one}/" for one in kinds]
        word = kinds[0]
    served = await find_kind(client, word)
    place = namespace if served.namespaced else None
    page = await client.list(OnlyMetadata(served.gvk), namespace=place, limit=_MOST_NAMES)
    return sorted({f"{word}/{one.metadata.name}" for one in page})


async def _names_alone(client: "Client", kind: str, namespace: str | None) -> Sequence[str]:
    """The names of the objects of the kind that a command means without one."""
    return [one.rpartition("/")[2] for one in await _objects(client, f"{kind}/", namespace, None)]


def _mapper(client: "Client") -> "RestMapper":
    from levelset.client.rest_mapper import RestMapper  # noqa: PLC0415  # as above

    mapper = client.mapper
    assert isinstance(mapper, RestMapper), "the mapper of a client that connects"
    return mapper


def _has(served: "ApiResource", subresource: str | None) -> bool:
    return subresource is None or subresource in served.subresources


def _word(served: "ApiResource") -> str:
    return served.singular or served.gvk.kind.lower()


def _query(ctx: click.Context, question: "Callable[[Client], Awaitable[Sequence[str]]]") -> Sequence[str]:
    from levelset.client import Client  # noqa: PLC0415  # as above

    path = server_kubeconfig(ctx.params.get("kubeconfig"))

    async def query() -> Sequence[str]:
        async with (
            asyncio.timeout(_PATIENCE),
            await Client.connect(path, context=ctx.params.get("context")) as client,
        ):
            return await question(client)

    try:
        return asyncio.run(query())
    except (LevelsetError, OSError):
        return ()
