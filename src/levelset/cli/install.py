"""`levelset install` and `uninstall`: applies CRDs and manifests to a cluster, and deletes them again.

Objects are applied in the order of their dependencies and deleted in reverse. `install` waits until CRDs are
established and workloads (Deployments, StatefulSets, DaemonSets, Jobs) are rolled out; `rollout_of` judges that by
their status.
"""

import asyncio
import copy
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

import click

from levelset.cli.output import CommandFailed, UsageError, output_option, progress, reporting_errors, show_json
from levelset.cli.targets import load_targets
from levelset.client.client import Client
from levelset.codegen.crd import crds_of
from levelset.errors import ConfigError, Deadline, LevelsetError, Malformed, NotFound, UnknownKind
from levelset.objects import GroupVersionKind, Ref, Unstructured
from levelset.objects.json_tree import is_list, is_map
from levelset.objects.yaml_codec import read_yaml
from levelset.runtime.manager.crd_install import is_established

__all__ = [
    "Progress",
    "Rollout",
    "Step",
    "count_custom_objects",
    "install",
    "install_all",
    "install_order",
    "is_rolled_out",
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
    """The state of a rollout and its message; one that has `failed` does not progress by itself."""

    state: State
    message: str
    is_observed: bool = True
    """Whether a controller has observed the object at all."""


def is_rolled_out(api_version: str, kind: str) -> bool:
    """Whether objects of this kind have a rollout to wait for."""
    return (api_version.partition("/")[0], kind) in _ROLLOUT_CHECKS


def rollout_of(tree: Tree) -> Rollout:
    """The rollout of an object, judged by its status; objects of other kinds are ready."""
    check = _ROLLOUT_CHECKS.get((str(tree.get("apiVersion")).partition("/")[0], str(tree.get("kind"))))
    if check is None:
        return Rollout("ready", "")
    return check(_map(tree, "spec"), _map(tree, "status"), _map(tree, "metadata"))


def _deployment(spec: Tree, status: Tree, meta: Tree) -> Rollout:
    if spec.get("paused"):
        return Rollout("ready", "paused")
    behind = _not_observed(status, meta)
    if behind:
        return behind
    progressing = _condition(status, "Progressing")
    if progressing.get("reason") == "ProgressDeadlineExceeded":
        return Rollout("failed", _with_reason("it does not progress", progressing))
    wanted, updated = _count(spec, "replicas", 1), _count(status, "updatedReplicas")
    available, old = _count(status, "availableReplicas"), _count(status, "replicas") - updated
    if updated < wanted:
        return Rollout(
            "waiting", _with_reason(f"{updated} of {wanted} replicas are updated", _failing_condition(status))
        )
    if old > 0:
        return Rollout("waiting", f"{old} old {_plural(old, 'replica')} still running")
    if available < wanted:
        return Rollout(
            "waiting", _with_reason(f"{available} of {wanted} replicas are available", _failing_condition(status))
        )
    return Rollout("ready", f"{available} of {wanted} replicas are available")


def _stateful_set(spec: Tree, status: Tree, meta: Tree) -> Rollout:
    behind = _not_observed(status, meta)
    if behind:
        return behind
    wanted, ready = _count(spec, "replicas", 1), _count(status, "readyReplicas")
    if ready < wanted:
        return Rollout("waiting", f"{ready} of {wanted} replicas are ready")
    strategy = _map(spec, "updateStrategy")
    if strategy.get("type") != "OnDelete":
        partition = _count(_map(strategy, "rollingUpdate"), "partition")
        updated, some = _count(status, "updatedReplicas"), max(wanted - partition, 0)
        if updated < some and status.get("updateRevision") != status.get("currentRevision"):
            return Rollout("waiting", f"{updated} of {some} replicas are updated")
    return Rollout("ready", f"{ready} of {wanted} replicas are ready")


def _daemon_set(spec: Tree, status: Tree, meta: Tree) -> Rollout:
    behind = _not_observed(status, meta)
    if behind:
        return behind
    wanted, updated = _count(status, "desiredNumberScheduled"), _count(status, "updatedNumberScheduled")
    available = _count(status, "numberAvailable")
    if updated < wanted and _map(spec, "updateStrategy").get("type") != "OnDelete":
        return Rollout("waiting", f"{updated} of {wanted} nodes are updated")
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
        return _NOT_OBSERVED
    wanted = _count(spec, "completions", _count(spec, "parallelism", 1))
    return Rollout("waiting", f"{_count(status, 'succeeded')} of {wanted} pods have succeeded")


_RolloutCheck = Callable[[Tree, Tree, Tree], Rollout]
_ROLLOUT_CHECKS: Final[Mapping[tuple[str, str], _RolloutCheck]] = {
    ("apps", "Deployment"): _deployment,
    ("apps", "StatefulSet"): _stateful_set,
    ("apps", "DaemonSet"): _daemon_set,
    ("batch", "Job"): _job,
}
_NOTHING: Final[Tree] = {}
_LAST_READ: Final = 10.0
"""The seconds of the read after a timeout."""
_NOT_OBSERVED: Final = Rollout("waiting", "no controller has observed it", is_observed=False)


def _not_observed(status: Tree, meta: Tree) -> Rollout | None:
    """The rollout while observedGeneration is behind the applied generation; None once it is not."""
    generation, seen = _count(meta, "generation"), _count(status, "observedGeneration")
    if not seen:
        return _NOT_OBSERVED
    return Rollout("waiting", "its controller has not observed the new generation") if seen < generation else None


def _failing_condition(status: Tree) -> Tree:
    """The condition that explains a missing replica; empty if there is none."""
    failure, available = _condition(status, "ReplicaFailure"), _condition(status, "Available")
    if failure.get("status") == "True":
        return failure
    return available if available.get("status") == "False" else _NOTHING


def _with_reason(message: str, condition: Tree) -> str:
    why = condition.get("message") or condition.get("reason")
    return f"{message} ({why})" if why else message


def _condition(status: Tree, type_: str) -> Tree:
    found: Any = status.get("conditions")
    several: list[Any] = found if is_list(found) else []
    return next((one for one in several if is_map(one) and one.get("type") == type_), _NOTHING)


def _map(tree: Tree, name: str) -> Tree:
    """A member that is a map; an empty map if it is missing or something else."""
    found: Any = tree.get(name)
    return found if is_map(found) else _NOTHING


def _count(tree: Tree, name: str, default: int = 0) -> int:
    found = tree.get(name)
    return found if isinstance(found, int) else default


def _plural(count: int, word: str) -> str:
    return f"{word} is" if count == 1 else f"{word}s are"


@dataclass
class Progress:
    """The current operation and the number of steps, for the progress line."""

    steps: int = 0
    what: str = "waiting for the server"


async def wait_rollout(
    client: Client, ref: Ref[Unstructured], *, current: Progress, until: float, within: float
) -> str:
    """Waits for the rollout of an object; returns its message. CommandFailed if it fails or times out.

    `until` is the deadline in loop time; `within` is the whole timeout, for the message.
    """
    last: Rollout | None = None

    def has_ended(obj: Unstructured) -> bool:
        nonlocal last
        last = rollout_of(obj.tree)
        current.what = f"waiting for {ref}: {last.message}"
        return last.state != "waiting"

    current.what = f"waiting for {ref}"
    try:
        found = rollout_of((await client.wait(ref, has_ended, within=seconds_left(until))).tree)
    except Deadline as error:
        seen = last or await _read_rollout(client, ref)
        if seen is None or seen.state == "waiting":
            raise CommandFailed(_timeout_message(ref, seen, within)) from error
        found = seen
    if found.state == "failed":
        raise CommandFailed(f"{ref}: {found.message}; the applied objects remain, see: {_describe_command(ref)}")
    return f"ready ({found.message})"


async def _read_rollout(client: Client, ref: Ref[Unstructured]) -> Rollout | None:
    """The rollout as it is now, for a message that says more than that the time is over; None if it cannot be read."""
    try:
        async with asyncio.timeout(_LAST_READ):
            return rollout_of((await client.get(ref)).tree)
    except (LevelsetError, TimeoutError):
        return None


def seconds_left(until: float) -> float:
    """The seconds until a loop time; 0 if it has passed."""
    return max(until - asyncio.get_running_loop().time(), 0.0)


def _timeout_message(ref: Ref[Unstructured], last: Rollout | None, within: float) -> str:
    after = f"after {within:g} seconds"
    if last is None:
        return f"{ref} could not be read {after}; the applied objects remain, see: {_describe_command(ref)}"
    if not last.is_observed:
        return (
            f"{ref} is applied, but {last.message} {after}: this server runs no {ref.gvk.kind}s (`levelset serve` does "
            "not), or its controllers are down; use --no-wait to skip waiting"
        )
    hint = f"the applied objects remain, see: {_describe_command(ref)}; use --timeout to wait longer"
    return f"{ref} is not ready {after}: {last.message}; {hint}"


def _describe_command(ref: Ref[Unstructured]) -> str:
    where = f" -n {ref.namespace}" if ref.namespace else ""
    return f"kubectl describe {ref.gvk.kind.lower()} {ref.name}{where}"


Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Step:
    """The outcome of one object."""

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
"""The order of application: dependencies first. Webhooks come last: they would reject writes before they can serve."""
_LAST: Final = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
_DEFINITION: Final = "CustomResourceDefinition"
_MANAGER: Final = "levelset"
_SUFFIXES: Final = (".yaml", ".yml", ".json")


def read_manifests(path: Path) -> list[dict[str, Any]]:
    """The manifests of a file, or of all files of a folder; ConfigError names the file and the problem.

    The items of a `List` are returned one by one. Duplicates are dropped: a folder may also contain one file with
    everything.
    """
    if path.is_dir():
        files = sorted(one for one in path.rglob("*") if one.suffix in _SUFFIXES and one.name != "kustomization.yaml")
        if not files:
            raise ConfigError(f"{path} contains no manifests: no files that end with {', '.join(_SUFFIXES)}")
        return _deduplicated(document for one in files for document in read_manifests(one))
    try:
        documents = read_yaml(path.read_bytes())
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    except Malformed as error:
        raise ConfigError(f"{path}: {error}") from error
    found = [(number, one) for number, document in enumerate(documents, 1) for one in _unfold(document)]
    if not found:
        raise ConfigError(f"{path} contains no manifests: it is empty")
    return _deduplicated(_checked(path, number, one) for number, one in found)


def install_order(documents: Sequence[Document]) -> list[Document]:
    """The documents in the order of their dependencies; stable for kinds of equal rank."""

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
    current: Progress | None = None,
) -> AsyncGenerator[Step, None]:
    """Applies all documents; yields a step for each: created, changed or unchanged.

    With `wait`, then yields a step for each workload that is rolled out; CommandFailed if a rollout fails or all take
    longer than `within` seconds. Deadline if a CRD is not established by then.
    """
    now = current or Progress()
    until = asyncio.get_running_loop().time() + within
    rollouts: list[Ref[Unstructured]] = []
    now.steps = len(documents)
    for document in install_order(documents):
        ref = _ref(document)
        now.what = f"applying {ref}"
        before = await _find(client, ref)
        after, note = await _apply(client, document, before, dry_run=dry_run)
        if document["kind"] == _DEFINITION and not dry_run:
            now.what = f"waiting until {ref} is established"
            await client.wait(ref, is_established, within=seconds_left(until))
        elif wait and not dry_run and is_rolled_out(document["apiVersion"], document["kind"]):
            rollouts.append(Ref(ref.gvk, ref.name, after.metadata.namespace))
        yield Step(str(ref), _change(before, after) + note + (" (dry run)" if dry_run else ""))
    now.steps += len(rollouts)
    for ref in rollouts:
        yield Step(str(ref), await wait_rollout(client, ref, current=now, until=until, within=within))


async def uninstall_all(
    client: Client, documents: Sequence[Document], *, within: float, current: Progress | None = None
) -> AsyncGenerator[Step, None]:
    """Deletes all documents in reverse order; yields a step for each: deleted or not found."""
    now = current or Progress()
    now.steps = len(documents)
    for document in reversed(install_order(documents)):
        ref = _ref(document)
        now.what = f"waiting until {ref} is deleted"
        try:
            await client.delete(ref, propagation="Background")
        except (NotFound, UnknownKind):
            yield Step(str(ref), "not found")
            continue
        await client.wait_gone(ref, within=within)
        yield Step(str(ref), "deleted")


async def count_custom_objects(client: Client, documents: Sequence[Document]) -> Sequence[str]:
    """The objects that would be deleted with their CRDs, by kind: `3 websites.example.dev`."""
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
    """The kind of a CRD in a served version; None if the document is incomplete."""
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


async def _apply(
    client: Client, document: Document, before: Unstructured | None, *, dry_run: bool
) -> tuple[Unstructured, str]:
    """Applies a document; returns the object, and a note about webhook addresses that were replaced.

    An operator that ran outside of the cluster, and was killed, leaves its webhooks with a `url`. Server-side apply
    would add the `service` of the manifest to it, and the API server rejects a webhook with both.
    """
    options: dict[str, Any] = {"manager": _MANAGER, "dry_run": dry_run}
    stale = {} if before is None else _other_addresses(before.tree, document)
    if before is None or not stale:
        return await client.apply(document, force=True, **options), ""
    tree = copy.deepcopy(before.tree)
    for name, holder in _webhooks(tree).items():
        if name in stale:
            holder["clientConfig"] = _webhooks(document)[name]["clientConfig"]
    after = await client.update(tree, **options)
    if not dry_run:
        after = await client.apply(document, force=True, **options)
    return after, f" (it had another address: {', '.join(dict.fromkeys(stale.values()))})"


def _other_addresses(tree: Tree, document: Document) -> dict[str, str]:
    """The webhooks of an object that have a `url` where the document has a `service`, or the reverse; by name."""
    found: dict[str, str] = {}
    wanted = _webhooks(document)
    for name, holder in _webhooks(tree).items():
        config, other = _map(holder, "clientConfig"), _map(wanted.get(name, {}), "clientConfig")
        for key, instead in (("url", "service"), ("service", "url")):
            if key in config and key not in other and instead in other:
                found[name] = str(config[key]) if key == "url" else f"service {_map(config, key).get('name')}"
    return found


def _webhooks(tree: Document) -> dict[str, Any]:
    """Whatever has a `clientConfig`: the webhooks of a configuration, and the conversion webhook of a CRD."""
    if tree["kind"] == _DEFINITION:
        found = _map(_map(_map(tree, "spec"), "conversion"), "webhook")
        return {"conversion": found} if found else {}
    hooks: Any = tree.get("webhooks") if tree["kind"] in _LAST else None
    several: list[Any] = hooks if is_list(hooks) else []
    return {str(one.get("name")): one for one in several if is_map(one)}


def _change(before: Unstructured | None, after: Unstructured) -> str:
    if before is None:
        return "created"
    if before.metadata.resource_version != after.metadata.resource_version:
        return "changed"
    # After a dry run the version is the old one, whatever has changed.
    return "unchanged" if _content(before.tree) == _content(after.tree) else "changed"


def _content(tree: Tree) -> dict[str, Any]:
    metadata = {name: value for name, value in tree["metadata"].items() if name not in ("generation", "managedFields")}
    return {**tree, "metadata": metadata}


def _ref(document: Document) -> Ref[Unstructured]:
    gvk = GroupVersionKind.of(document["apiVersion"], document["kind"])
    return Ref(gvk, document["metadata"]["name"], document["metadata"].get("namespace"))


def _unfold(document: Any) -> Iterator[Any]:
    if is_map(document) and document.get("kind") == "List" and is_list(document.get("items")):
        for item in document["items"]:
            yield from _unfold(item)
    elif document is not None:
        yield document


def _deduplicated(documents: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for one in documents:
        if one not in found:
            found.append(one)
    return found


def _checked(path: Path, number: int, document: Any) -> dict[str, Any]:
    names = ("apiVersion", "kind", "metadata")
    if not is_map(document) or not all(name in document for name in names):
        raise ConfigError(f"{path}, document {number} is not a manifest: it needs {', '.join(names)}")
    metadata = document["metadata"]
    if not is_map(metadata) or not metadata.get("name"):
        raise ConfigError(f"{path}, document {number} ({document['kind']}) has no metadata.name")
    try:
        GroupVersionKind.of(document["apiVersion"], document["kind"])
    except Malformed as error:
        raise ConfigError(f"{path}, document {number}: {error}") from error
    for name in ("name", "namespace"):
        if not isinstance(metadata.get(name, ""), str):
            raise ConfigError(
                f"{path}, document {number}: metadata.{name} {metadata[name]!r} is not a string; quote it"
            )
    return document


F = TypeVar("F", bound=Callable[..., Any])


def _options(function: F) -> F:
    for option in reversed(
        [
            click.argument("targets", metavar="[MODULE:CONTROLLERS]...", nargs=-1),
            click.option("-f", "--file", "files", multiple=True, metavar="PATH", help="Manifests: a file or a folder."),
            click.option("--kubeconfig", metavar="PATH", help="The kubeconfig file."),
            click.option("--context", metavar="NAME", help="The kubeconfig context."),
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
    help="Seconds to wait until CRDs are established and workloads are ready.",
)
@click.option("--wait/--no-wait", default=True, help="Wait until workloads are ready (default).")
@click.option("--dry-run", is_flag=True, help="Send dry-run requests; nothing is changed.")
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
    """Applies the CRDs of controllers' kinds, and manifests, and waits until they are ready.

    CRDs must become established. After everything is applied, Deployments, StatefulSets, DaemonSets and Jobs must be
    rolled out.

    Example: levelset install website:controllers -f manifests/

    Exit codes: 0 done, 1 failed or timed out, 2 usage error.
    """
    with reporting_errors():
        documents, current = _documents(targets, files, output), Progress()

        async def work(client: Client) -> None:
            await _show_steps(install_all(client, documents, current=current, **how), current, output)

        asyncio.run(_with_client(kubeconfig, context, work))


@click.command()
@_options
@click.option("--yes", is_flag=True, help="Do not ask for confirmation before objects are deleted with their CRDs.")
@click.option(
    "--timeout", "within", default=60.0, show_default=True, help="Seconds to wait until each object is deleted."
)
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
    """Deletes from a cluster what `levelset install` with the same arguments applied, in reverse order.

    Deleting a CRD deletes all objects of its kind, so it asks for confirmation if there are any.

    Example: levelset uninstall website:controllers
    """
    with reporting_errors():
        documents, current = _documents(targets, files, output), Progress()

        async def work(client: Client) -> None:
            with progress("counting the objects", output=output):
                affected = await count_custom_objects(client, documents)
            if affected and not yes:
                await asyncio.to_thread(_confirm, affected)
            await _show_steps(uninstall_all(client, documents, within=within, current=current), current, output)

        asyncio.run(_with_client(kubeconfig, context, work))


def _documents(targets: Sequence[str], files: Sequence[str], output: str) -> list[dict[str, Any]]:
    if not targets and not files:
        raise UsageError(
            "nothing to install: pass MODULE:CONTROLLERS for the CRDs of their kinds, or -f PATH for manifests"
        )
    with progress("importing the controllers", output=output):
        project = load_targets(targets)
        found = crds_of(project.own_kinds, hubs=project.hubs)
    if targets and not found:
        raise UsageError(f"{', '.join(targets)}: there is no custom kind to generate a CRD for")
    for path in files:
        found += read_manifests(Path(path))
    return found


async def _show_steps(steps: AsyncGenerator[Step, None], current: Progress, output: str) -> None:
    """Prints each step as it is done, or all of them as JSON at the end, also after a failure.

    On a terminal it shows the current operation.
    """
    done: list[Step] = []
    try:
        while True:
            with progress(lambda: f"{len(done) + 1} of {current.steps}: {current.what}", output=output):
                step = await anext(steps, None)
            if step is None:
                return
            done.append(step)
            if output == "text":
                click.echo(str(step))
    finally:
        if output == "json":
            show_json([{"object": one.object, "change": one.change} for one in done])


def _confirm(affected: Sequence[str]) -> None:
    click.echo(f"This deletes {', '.join(affected)} with their CRDs.", err=True)
    if not click.confirm("Continue?", default=False, err=True):
        raise UsageError("nothing was deleted")


async def _with_client(kubeconfig: str | None, context: str | None, work: Callable[[Client], Any]) -> None:
    async with await Client.connect(kubeconfig, context=context) as client:
        await work(client)
