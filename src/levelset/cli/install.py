"""`levelset install` and `uninstall`: puts definitions and manifests on a cluster, and takes them away again.

Whether what runs programs (Deployments, StatefulSets, DaemonSets, Jobs) has come to run what was applied. Pure.

Waits until what was applied runs, and says what it waits for, or why that does not come.

Applies manifests in an order that works, and deletes them in the other; tells line by line what came of each.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

import click

from levelset.cli.output import Failed, Refused, output_option, show_json, speaking, working
from levelset.cli.targets import gather
from levelset.client.client import Client
from levelset.codegen.crd import crds_of
from levelset.errors import ConfigError, Deadline, Malformed, NotFound, UnknownKind
from levelset.objects import GroupVersionKind, Ref, Unstructured
from levelset.objects.json_tree import is_list, is_map
from levelset.objects.yaml_codec import read_yaml
from levelset.runtime.manager.crd_install import is_established

__all__ = [
    "Doing",
    "Rollout",
    "Step",
    "in_order",
    "install",
    "install_all",
    "is_rolled_out",
    "objects_at_stake",
    "read_manifests",
    "rollout_of",
    "seconds_left",
    "uninstall",
    "uninstall_all",
    "wait_rollout",
]

State = Literal["ready", "waiting", "failed"]
Tree = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Rollout:
    """How far one is, and the words for it; one that has `failed` will not get any further by itself."""

    state: State
    said: str
    is_seen: bool = True
    """Whether a controller has looked at it at all."""


def is_rolled_out(api_version: str, kind: str) -> bool:
    """Whether objects of this kind take their time to run something."""
    return (api_version.partition("/")[0], kind) in _JUDGES


def rollout_of(tree: Tree) -> Rollout:
    """How far the rollout of an object is, judged by its status; anything of another kind is ready."""
    judge = _JUDGES.get((str(tree.get("apiVersion")).partition("/")[0], str(tree.get("kind"))))
    if judge is None:
        return Rollout("ready", "")
    return judge(_map(tree, "spec"), _map(tree, "status"), _map(tree, "metadata"))


def _deployment(spec: Tree, status: Tree, meta: Tree) -> Rollout:
    if spec.get("paused"):
        return Rollout("ready", "paused")
    unseen = _unseen(status, meta)
    if unseen:
        return unseen
    progressing = _condition(status, "Progressing")
    if progressing.get("reason") == "ProgressDeadlineExceeded":
        return Rollout("failed", _with_reason("it makes no progress", progressing))
    wanted, updated = _count(spec, "replicas", 1), _count(status, "updatedReplicas")
    available, old = _count(status, "availableReplicas"), _count(status, "replicas") - updated
    if updated < wanted:
        return Rollout("waiting", _with_reason(f"{updated} of {wanted} replicas are new", _trouble(status)))
    if old > 0:
        return Rollout("waiting", f"{old} old {_plural(old, 'replica')} still there")
    if available < wanted:
        return Rollout("waiting", _with_reason(f"{available} of {wanted} replicas are available", _trouble(status)))
    return Rollout("ready", f"{available} of {wanted} replicas are available")


def _stateful_set(spec: Tree, status: Tree, meta: Tree) -> Rollout:
    unseen = _unseen(status, meta)
    if unseen:
        return unseen
    wanted, ready = _count(spec, "replicas", 1), _count(status, "readyReplicas")
    if ready < wanted:
        return Rollout("waiting", f"{ready} of {wanted} replicas are ready")
    strategy = _map(spec, "updateStrategy")
    if strategy.get("type") != "OnDelete":
        kept = _count(_map(strategy, "rollingUpdate"), "partition")
        updated, some = _count(status, "updatedReplicas"), max(wanted - kept, 0)
        if updated < some and status.get("updateRevision") != status.get("currentRevision"):
            return Rollout("waiting", f"{updated} of {some} replicas are new")
    return Rollout("ready", f"{ready} of {wanted} replicas are ready")


def _daemon_set(spec: Tree, status: Tree, meta: Tree) -> Rollout:
    unseen = _unseen(status, meta)
    if unseen:
        return unseen
    wanted, updated = _count(status, "desiredNumberScheduled"), _count(status, "updatedNumberScheduled")
    available = _count(status, "numberAvailable")
    if updated < wanted and _map(spec, "updateStrategy").get("type") != "OnDelete":
        return Rollout("waiting", f"{updated} of {wanted} nodes have the new one")
    state: State = "waiting" if available < wanted else "ready"
    return Rollout(state, f"available on {available} of {wanted} nodes")


def _job(spec: Tree, status: Tree, _: Tree) -> Rollout:
    if spec.get("suspend"):
        return Rollout("ready", "suspended")
    failed = _condition(status, "Failed")
    if failed.get("status") == "True":
        return Rollout("failed", _with_reason("it has failed", failed))
    if _condition(status, "Complete").get("status") == "True":
        return Rollout("ready", "complete")
    if not status:
        return _NEVER_SEEN
    wanted = _count(spec, "completions", _count(spec, "parallelism", 1))
    return Rollout("waiting", f"{_count(status, 'succeeded')} of {wanted} pods have succeeded")


_Judge = Callable[[Tree, Tree, Tree], Rollout]
_JUDGES: Final[Mapping[tuple[str, str], _Judge]] = {
    ("apps", "Deployment"): _deployment,
    ("apps", "StatefulSet"): _stateful_set,
    ("apps", "DaemonSet"): _daemon_set,
    ("batch", "Job"): _job,
}
_NOTHING: Final[Tree] = {}
_NEVER_SEEN: Final = Rollout("waiting", "no controller has looked at it", is_seen=False)


def _unseen(status: Tree, meta: Tree) -> Rollout | None:
    """What to wait for while the status is not about what was applied."""
    generation, seen = _count(meta, "generation"), _count(status, "observedGeneration")
    if not seen:
        return _NEVER_SEEN
    return Rollout("waiting", "its controller has not looked at the new one") if seen < generation else None


def _trouble(status: Tree) -> Tree:
    """The condition that says why it does not get on; empty if none does."""
    failure, available = _condition(status, "ReplicaFailure"), _condition(status, "Available")
    if failure.get("status") == "True":
        return failure
    return available if available.get("status") == "False" else _NOTHING


def _with_reason(said: str, condition: Tree) -> str:
    why = condition.get("message") or condition.get("reason")
    return f"{said} ({why})" if why else said


def _condition(status: Tree, type_: str) -> Tree:
    found: Any = status.get("conditions")
    several: list[Any] = found if is_list(found) else []
    return next((one for one in several if is_map(one) and one.get("type") == type_), _NOTHING)


def _map(tree: Tree, name: str) -> Tree:
    """A member that is a map; an empty one if it is not there, or of a server that is none."""
    found: Any = tree.get(name)
    return found if is_map(found) else _NOTHING


def _count(tree: Tree, name: str, default: int = 0) -> int:
    found = tree.get(name)
    return found if isinstance(found, int) else default


def _plural(count: int, word: str) -> str:
    return f"{word} is" if count == 1 else f"{word}s are"


@dataclass
class Doing:
    """What is waited for just now, and how many steps there are, for whoever shows that."""

    steps: int = 0
    what: str = "waits for the server"


async def wait_rollout(client: Client, ref: Ref[Unstructured], *, doing: Doing, until: float, within: float) -> str:
    """Returns when an object runs what was applied, with the words for that; Failed if it does not by then, or never.

    `until` is a time of the loop; `within` is how long that was when all began.
    """
    last: Rollout | None = None

    def has_ended(obj: Unstructured) -> bool:
        nonlocal last
        last = rollout_of(obj.tree)
        doing.what = f"waits for {ref}: {last.said}"
        return last.state != "waiting"

    doing.what = f"waits for {ref}"
    try:
        found = rollout_of((await client.wait(ref, has_ended, within=seconds_left(until))).tree)
    except Deadline as error:
        raise Failed(_late(ref, last, within)) from error
    if found.state == "failed":
        raise Failed(f"{ref}: {found.said}; what was applied stays, see: {_look(ref)}")
    return f"ready ({found.said})"


def seconds_left(until: float) -> float:
    """How long it is until a time of the loop."""
    return max(until - asyncio.get_running_loop().time(), 0.0)


def _late(ref: Ref[Unstructured], last: Rollout | None, within: float) -> str:
    after = f"after {within:g} seconds"
    if last is None:
        return f"{ref} could not be looked at {after}; what was applied stays, see: {_look(ref)}"
    if not last.is_seen:
        return (
            f"{ref} is applied, but {last.said} {after}: this server runs no {ref.gvk.kind}s, as `levelset serve` does "
            "not, or its controllers are away; --no-wait does not wait for it"
        )
    return f"{ref} is not ready {after}: {last.said}; what was applied stays, see: {_look(ref)}; --timeout waits longer"


def _look(ref: Ref[Unstructured]) -> str:
    where = f" -n {ref.namespace}" if ref.namespace else ""
    return f"kubectl describe {ref.gvk.kind.lower()} {ref.name}{where}"


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


F = TypeVar("F", bound=Callable[..., Any])


def _options(function: F) -> F:
    for option in reversed(
        [
            click.argument("targets", metavar="[MODULE:CONTROLLERS]...", nargs=-1),
            click.option("-f", "--file", "files", multiple=True, metavar="PATH", help="Manifests: a file or a folder."),
            click.option("--kubeconfig", metavar="PATH", help="The file that says where the cluster is."),
            click.option("--context", metavar="NAME", help="The context in it."),
        ]
    ):
        function = option(function)
    return function


@click.command()
@_options
@click.option(
    "--timeout",
    "within",
    default=60.0,
    show_default=True,
    help="Seconds to wait until definitions are served and programs run.",
)
@click.option("--wait/--no-wait", default=True, help="Wait until Deployments and the like run; on unless --no-wait.")
@click.option("--dry-run", is_flag=True, help="Ask the server, and change nothing.")
@output_option
def install(
    *,
    targets: tuple[str, ...],
    files: tuple[str, ...],
    kubeconfig: str | None,
    context: str | None,
    output: str,
    **how: Any,
) -> None:
    """Applies the definitions of controllers' kinds, and manifests. Waits until they are served, and run.

    Deployments, StatefulSets, DaemonSets and Jobs are waited for after all is applied, until they run what was applied.

    Example: levelset install website:controllers -f manifests/

    Exit codes: 0 done, 1 something failed or did not run in time, 2 it was not understood.
    """
    with speaking():
        documents, doing = _documents(targets, files, output), Doing()

        async def work(client: Client) -> None:
            await _tell(install_all(client, documents, doing=doing, **how), doing, output)

        asyncio.run(_on(kubeconfig, context, work))


@click.command()
@_options
@click.option("--yes", is_flag=True, help="Do not ask, although objects of these kinds go with their definitions.")
@click.option("--timeout", "within", default=60.0, show_default=True, help="Seconds to wait until each is gone.")
@output_option
def uninstall(
    *,
    targets: tuple[str, ...],
    files: tuple[str, ...],
    kubeconfig: str | None,
    context: str | None,
    yes: bool,
    within: float,
    output: str,
) -> None:
    """Takes from a cluster what `levelset install` with the same arguments has put there, in reverse order.

    A definition takes all objects of its kind with it, so it asks first if there are any.

    Example: levelset uninstall website:controllers
    """
    with speaking():
        documents, doing = _documents(targets, files, output), Doing()

        async def work(client: Client) -> None:
            with working("looks which objects there are", output=output):
                stake = await objects_at_stake(client, documents)
            if stake and not yes:
                await asyncio.to_thread(_confirm, stake)
            await _tell(uninstall_all(client, documents, within=within, doing=doing), doing, output)

        asyncio.run(_on(kubeconfig, context, work))


def _documents(targets: Sequence[str], files: Sequence[str], output: str) -> list[dict[str, Any]]:
    if not targets and not files:
        raise Refused("say what: MODULE:CONTROLLERS for the definitions of their kinds, or -f PATH for manifests")
    with working("loads the controllers", output=output):
        project = gather(targets)
        found = crds_of(project.own_kinds, hubs=project.hubs)
    if targets and not found:
        raise Refused(f"{', '.join(targets)}: no kind of your own is there to be defined")
    for path in files:
        found += read_manifests(Path(path))
    return found


async def _tell(steps: AsyncGenerator[Step, None], doing: Doing, output: str) -> None:
    """Shows each step when it is done, or all of them as JSON at the end, also if that is a failure.

    On a terminal it shows what is waited for.
    """
    done: list[Step] = []
    try:
        while True:
            with working(lambda: f"{len(done) + 1} of {doing.steps}: {doing.what}", output=output):
                step = await anext(steps, None)
            if step is None:
                return
            done.append(step)
            if output == "text":
                click.echo(str(step))
    finally:
        if output == "json":
            show_json([{"object": one.object, "change": one.change} for one in done])


def _confirm(stake: Sequence[str]) -> None:
    click.echo(f"This deletes {', '.join(stake)} with the definitions.", err=True)
    if not click.confirm("Go on?", default=False, err=True):
        raise Refused("nothing was deleted")


async def _on(kubeconfig: str | None, context: str | None, work: Callable[[Client], Any]) -> None:
    async with await Client.connect(kubeconfig, context=context) as client:
        await work(client)
