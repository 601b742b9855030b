"""The history of a StatefulSet or DaemonSet: a numbered ControllerRevision for each of its Pod templates.

`plan_history` decides, and `write_history` executes it. Whether a revision has the template of its owner is decided by
comparing the templates, so another version of levelset may compute the hash in its name differently without replacing
any Pod.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

from msgspec import Struct

from levelset import Action, Context, Ref, replace, requeue
from levelset.errors import AlreadyExists
from levelset.kinds.apps_v1 import ControllerRevision, DaemonSet, StatefulSet
from levelset.kinds.core_v1 import PodTemplateSpec
from levelset.objects import controller_of, from_tree, to_tree
from levelset_local.deployments.revisions import hash_template
from levelset_local.ownership import CACHE_LAG_SECONDS, matches_server

__all__ = [
    "DAEMON_SET_HASH",
    "POD_REVISION",
    "STATEFUL_SET_HASH",
    "History",
    "plan_history",
    "revisions_to_prune",
    "same_template",
    "template_of",
    "write_history",
]

W = TypeVar("W", StatefulSet, DaemonSet)

POD_REVISION: Final = "controller-revision-hash"
"""The label of a Pod with its revision."""
STATEFUL_SET_HASH: Final = "controller.kubernetes.io/hash"
DAEMON_SET_HASH: Final = POD_REVISION
"""The labels of a ControllerRevision with its hash; they differ by kind, as in Kubernetes."""
_LONGEST_PREFIX: Final = 223


class History(Struct, frozen=True, kw_only=True):
    """The revisions of an owner: the one of its template, and what has to be written so that it is the last one."""

    update: ControllerRevision
    """The revision of the owner's template, with the highest number."""
    current: ControllerRevision
    """The revision that the status names; that of the template if there is none."""
    is_new: bool = False
    """Whether `update` has to be created."""
    is_renumbered: bool = False
    """Whether `update` exists, and has to be saved with its new number: the owner was rolled back to it."""


def plan_history(
    owner: StatefulSet | DaemonSet,
    revisions: Sequence[ControllerRevision],
    *,
    hash_label: str,
    current: str | None = None,
) -> History:
    """The history of an owner that has these revisions, and whose status names the revision `current`."""
    ranked = sorted(revisions, key=_rank)
    template = owner.spec.template
    equal = next((one for one in reversed(ranked) if same_template(one, template)), None)
    update = _new_revision(owner, hash_label, _next_number(ranked)) if equal is None else equal
    is_renumbered = equal is not None and equal is not ranked[-1]
    if is_renumbered:
        update = replace(update, revision=_next_number(ranked))
    return History(
        update=update,
        current=next((one for one in ranked if one.name == current and one.name != update.name), update),
        is_new=equal is None,
        is_renumbered=is_renumbered,
    )


async def write_history(
    ctx: Context, owner: W, history: History, *, with_collision: Callable[[W], Any]
) -> Action | None:
    """Creates or renumbers the revision of the owner's template; returns a requeue if the cache is stale.

    If another object has its name, the status of `with_collision` is written, which gives the next one another name.
    """
    if history.is_renumbered:
        await ctx.save(history.update)
    if not history.is_new:
        return None
    if not await matches_server(ctx, owner):
        return requeue(CACHE_LAG_SECONDS)
    try:
        await ctx.create(history.update, owner=owner)
    except AlreadyExists:
        found = await ctx.live(Ref(ControllerRevision, history.update.name, owner.namespace))
        if found is None:
            return requeue(0)  # it was deleted meanwhile
        controller = controller_of(found)
        is_own = controller is not None and controller.uid == owner.metadata.uid
        if is_own and same_template(found, owner.spec.template):
            return requeue(CACHE_LAG_SECONDS)
        await ctx.set_status(owner, with_collision(owner))
        return requeue(0)
    return None


def template_of(revision: ControllerRevision) -> PodTemplateSpec | None:
    """The Pod template of a revision; None if its data has another form."""
    data: Any = revision.data
    try:
        tree = {key: value for key, value in data["spec"]["template"].items() if key != "$patch"}
        return from_tree(PodTemplateSpec, tree)
    except (KeyError, TypeError, AttributeError, ValueError):
        return None


def same_template(revision: ControllerRevision, template: PodTemplateSpec) -> bool:
    """Whether a revision has this template."""
    return template_of(revision) == template


def revisions_to_prune(
    revisions: Iterable[ControllerRevision], *, live: Iterable[str], limit: int | None
) -> tuple[ControllerRevision, ...]:
    """The oldest revisions above the history limit, of those whose names are not `live`."""
    in_use = set(live)
    unused = sorted((one for one in revisions if one.name not in in_use), key=_rank)
    return () if limit is None or limit < 0 else tuple(unused[: max(0, len(unused) - limit)])


def _new_revision(owner: StatefulSet | DaemonSet, hash_label: str, number: int) -> ControllerRevision:
    template = owner.spec.template
    collisions = None if owner.status is None else owner.status.collision_count
    template_hash = hash_template(template, collisions)
    return ControllerRevision.new(
        f"{owner.name[:_LONGEST_PREFIX]}-{template_hash}",
        namespace=owner.namespace,
        labels={**template.metadata.labels, hash_label: template_hash},
        annotations=owner.metadata.annotations,
        revision=number,
        data=_patch(template),
    )


def _patch(template: PodTemplateSpec) -> Mapping[str, Any]:
    """The data of a revision: a strategic merge patch that sets the template, as `kubectl rollout undo` expects.

    Its keys are sorted, as Go writes them: programs compare the bytes of a revision with those of a template.
    """
    found: Mapping[str, Any] = json.loads(json.dumps(to_tree(template), sort_keys=True))
    return {"spec": {"template": {"$patch": "replace", **found}}}


def _next_number(ranked: Sequence[ControllerRevision]) -> int:
    return ranked[-1].revision + 1 if ranked else 1


def _rank(revision: ControllerRevision) -> tuple[int, float, str]:
    created = revision.metadata.creation_timestamp
    return revision.revision, 0.0 if created is None else created.timestamp(), revision.name
