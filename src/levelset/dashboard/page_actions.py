"""What the page may change, if the program was started with actions: each one is checked, done once, and logged.

Off by default. The access policy lets an action in only from the page itself; here it is read, carried out with the
rights of the program, under the field manager `levelset-dashboard`, and written to the log of the process.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec

from levelset.client import Client, MergePatch
from levelset.client.object_types import view_of
from levelset.dashboard.object_versions import tree_diff
from levelset.dashboard.views import read_kind
from levelset.errors import BadObject, BadRequest, LevelsetError, NotFound
from levelset.objects import Unstructured
from levelset.objects.json_tree import is_map
from levelset.objects.ref import Ref
from levelset.runtime.controller.context_dependencies import wall_clock
from levelset.runtime.controller.running_controller import RunningController
from levelset.runtime.manager import ObjectPanel

if TYPE_CHECKING:
    from levelset.dashboard.managers import OtherManagers

__all__ = ["ActionRequest", "Actions"]

MANAGER: Final = "levelset-dashboard"
"""The field manager of what the page writes."""

_MOST_AUDITED: Final = 200
_LONGEST_AUDITED: Final = 1_000
_LONGEST_MESSAGE: Final = 10_000
_LONGEST_SESSION: Final = 100
_RESTARTED_AT: Final = "kubectl.kubernetes.io/restartedAt"
_RESTARTABLE: Final = frozenset({"Deployment", "StatefulSet", "DaemonSet"})
_audit: Final = logging.getLogger("levelset.dashboard.audit")


class ActionRequest(msgspec.Struct, frozen=True):
    """What the page sends: which object, or which controller, and the value that the action needs."""

    kind: str = ""
    name: str = ""
    namespace: str = ""
    controller: str = ""
    uid: str = ""
    replicas: int | None = None
    text: str = ""
    session: str = ""
    """The conversation that a message belongs to."""

    @property
    def about(self) -> str:
        """What it is about, for the log."""
        return (self.controller or "/".join(filter(None, (self.kind, self.namespace, self.name))))[:_LONGEST_AUDITED]


_decoder: Final = msgspec.json.Decoder(ActionRequest)


class Actions:
    """Carries out actions; `done` are the last ones, newest last, with their time and result."""

    def __init__(
        self,
        client: Callable[[], Client],
        controllers: Callable[[], Mapping[str, RunningController[Any]]],
        others: "Callable[[], OtherManagers | None]" = lambda: None,
        panels: Callable[[], Mapping[tuple[str, ...], ObjectPanel]] = dict,
    ) -> None:
        self._client = client
        self._controllers = controllers
        self._others = others
        self._panels = panels
        self.done: deque[tuple[datetime, str, str, str]] = deque(maxlen=_MOST_AUDITED)
        self._actions: dict[str, Callable[[ActionRequest], Awaitable[Any]]] = {
            "apply": self._apply,
            "delete": self._delete,
            "message": self._message,
            "pause": self._pause,
            "preview": self._preview,
            "reconcile": self._reconcile,
            "restart": self._restart,
            "resume": self._resume,
            "scale": self._scale,
        }

    async def run(self, name: str, body: bytes) -> Any:
        """Carries out an action and logs it with its result; NotFound for one that does not exist."""
        action = self._actions.get(name)
        if action is None:
            raise NotFound(f"there is no action {name}; there is {', '.join(self._actions)}")
        try:
            request = _decoder.decode(body)
        except msgspec.MsgspecError as error:
            raise BadRequest(f"the request of the action is malformed: {error}") from error
        try:
            found = await action(request)
        except LevelsetError as error:
            self._note(name, request, f"refused: {error}"[:_LONGEST_AUDITED])
            raise
        self._note(name, request, "done")
        return found

    def _note(self, name: str, request: ActionRequest, result: str) -> None:
        """Writes an action to the log; a preview changes nothing."""
        if name != "preview":
            self.done.append((wall_clock(), name, request.about, result))
            extra = {"action": name, "about": request.about, "result": result}
            _audit.info("dashboard action %s of %s: %s", name, request.about, result, extra=extra)

    async def _message(self, request: ActionRequest) -> Any:
        """Sends a message to an object whose system declares a conversation; returns the answer."""
        ref = _ref(request)
        panel = self._panels().get(ref.gvk[::2])
        if panel is None or panel.answer is None:
            raise BadRequest(f"{ref.gvk.kind} {ref.name} has no conversation")
        if not request.text or len(request.text) > _LONGEST_MESSAGE:
            raise BadRequest(f"text: a message has 1 to {_LONGEST_MESSAGE} characters")
        return {"message": await panel.answer(self._client(), ref, request.text, request.session[:_LONGEST_SESSION])}

    async def _reconcile(self, request: ActionRequest) -> Any:
        ref, found = _ref(request), list[str]()
        for name, one in self._controllers().items():
            if view_of(one.controller.kind).gvk[::2] == ref.gvk[::2]:
                one.enqueue(
                    Ref(view_of(one.controller.kind).gvk, ref.name, ref.namespace), "requested by the dashboard"
                )
                found.append(name)
        others = self._others()
        if others is not None:
            found += await others.trigger(ref.gvk, ref.name, ref.namespace)
        if not found:
            where = "of this process" if others is None else "of a manager on this machine"
            raise NotFound(f"no controller {where} reconciles {ref.gvk.kind}")
        return {"message": f"enqueued at {', '.join(found)}"}

    async def _pause(self, request: ActionRequest) -> Any:
        self._controller(request).pause()
        return {"message": f"{request.controller} is paused: requests are queued, and none is reconciled"}

    async def _resume(self, request: ActionRequest) -> Any:
        self._controller(request).resume()
        return {"message": f"{request.controller} goes on"}

    async def _scale(self, request: ActionRequest) -> Any:
        if request.replicas is None or not 0 <= request.replicas <= 10_000:
            raise BadRequest("replicas: expected a number from 0 to 10000")
        await self._client().scale(_ref(request), request.replicas, manager=MANAGER)
        return {"message": f"scaled to {request.replicas}"}

    async def _restart(self, request: ActionRequest) -> Any:
        ref = _ref(request)
        if ref.gvk.group != "apps" or ref.gvk.kind not in _RESTARTABLE:
            raise BadRequest(f"a {ref.gvk.kind} cannot be restarted; {', '.join(sorted(_RESTARTABLE))} can")
        stamp = wall_clock().isoformat(timespec="seconds").replace("+00:00", "Z")
        template = {"metadata": {"annotations": {_RESTARTED_AT: stamp}}}
        await self._client().patch(ref, MergePatch({"spec": {"template": template}}), manager=MANAGER)
        return {"message": "restarted: its Pods are replaced"}

    async def _preview(self, request: ActionRequest) -> Any:
        """What an edit would change, by a dry run of the server: with its defaults, webhooks and rules."""
        ref, tree = _ref(request), await asyncio.to_thread(_edited, request)
        before = await self._client().get(ref)
        after = await self._client().update(tree, manager=MANAGER, dry_run=True)
        return {"lines": await asyncio.to_thread(tree_diff, before.tree, after.tree, "now", "after the edit")}

    async def _apply(self, request: ActionRequest) -> Any:
        """Writes an edit; a Conflict if the object has changed since it was read."""
        await self._client().update(await asyncio.to_thread(_edited, request), manager=MANAGER)
        return {"message": "written"}

    async def _delete(self, request: ActionRequest) -> Any:
        if not request.uid:
            raise BadRequest("uid is missing: a deletion names the object that was confirmed")
        await self._client().delete(_ref(request), uid=request.uid)
        return {"message": "deleted"}

    def _controller(self, request: ActionRequest) -> RunningController[Any]:
        found = self._controllers().get(request.controller)
        if found is None:
            raise NotFound(f"there is no controller {request.controller} in this process")
        return found


def _ref(request: ActionRequest) -> Ref[Any]:
    if not request.name:
        raise BadRequest("name is missing")
    return Ref(read_kind(request.kind), request.name, request.namespace or None)


def _edited(request: ActionRequest) -> Unstructured:
    """The object of an edited text; it must be the one that is named, and have the version that was read."""
    from levelset.objects.yaml_codec import read_yaml  # noqa: PLC0415  # imported late: slow, and rarely needed

    ref = _ref(request)
    try:
        documents = read_yaml(request.text)
    except BadObject as error:
        raise BadRequest(str(error)) from error
    tree: Any = documents[0] if len(documents) == 1 else None
    meta: Any = tree.get("metadata") if is_map(tree) else None
    if not is_map(meta):
        raise BadRequest("expected one object with metadata")
    named = (tree.get("apiVersion"), tree.get("kind"), meta.get("name"), meta.get("namespace"))
    if named != (ref.gvk.api_version, ref.gvk.kind, ref.name, ref.namespace):
        raise BadRequest("kind, name and namespace cannot be edited")
    if ref.gvk.kind == "Secret":
        raise BadRequest("Secrets are not edited here: their values are not sent to the page")
    if not meta.get("resourceVersion"):
        raise BadRequest("metadata.resourceVersion is missing: it says which version was edited")
    return Unstructured(tree)
