"""Makes sure that an object is there and is as it should be: made, changed, or left alone."""

from collections.abc import Callable
from typing import Any, Final, Generic, Literal, TypeVar

import msgspec

from levelset.aio import timing
from levelset.aio.backoff import Backoff
from levelset.client.drafting import draft_of
from levelset.client.patches import MergePatch
from levelset.client.reading import Reading
from levelset.client.writing import Writing
from levelset.errors import ConfigError, Conflict, NotFound
from levelset.objects import codec
from levelset.objects.identity import Ref
from levelset.objects.resource import Object
from levelset.objects.trees import same
from levelset.objects.unstructured import Unstructured

__all__ = ["Done", "Ensured", "Ensuring"]

Done = Literal["created", "unchanged", "updated"]

O = TypeVar("O", bound=Object | Unstructured)  # noqa: E741  # the letter the type checker shows
O_co = TypeVar("O_co", covariant=True)

_BACKOFF: Final = Backoff(first=0.01, factor=5.0, cap=1.0)


class Ensured(msgspec.Struct, Generic[O_co], frozen=True):
    """The object as it is now, and what had to be done for it."""

    object: O_co
    done: Done


class Ensuring(Reading, Writing):
    """The verb that reads and writes in one."""

    async def ensure(
        self,
        obj: O,
        change: Callable[[O], O],
        /,
        *,
        by: Literal["patch", "update"] = "update",
        attempts: int = 5,
        manager: str | None = None,
        dry_run: bool = False,
    ) -> Ensured[O]:
        """The object as `change` wants it: made from `obj` if it is not there, written only if it differs.

        `change` gets what the server has, or `obj`, and returns what it should have; it must not change who the object
        is. If somebody else writes in between, it is called again with what is there then, up to `attempts` times;
        then the Conflict is raised.
        """
        draft = draft_of(obj)
        target = self._drafted(await self._served(draft.view), draft, None)
        if not draft.name:
            raise ConfigError(f"ensure {draft.view.gvk.kind}: only an object with a name can be there already")
        kind: Any = type(obj) if isinstance(obj, Object) else draft.view.gvk
        ref: Ref[Any] = Ref(kind, draft.name, target.namespace)
        delays = _BACKOFF.delays()
        for _ in range(attempts - 1):
            try:
                return await self._ensure_once(obj, change, ref, by=by, manager=manager, dry_run=dry_run)
            except Conflict:
                await timing.sleep(next(delays))
            except NotFound as error:
                # Deleted between our read and our write; but a kind that is not there stays so.
                if not error.details.get("name"):
                    raise
        return await self._ensure_once(obj, change, ref, by=by, manager=manager, dry_run=dry_run)

    async def _ensure_once(
        self, obj: O, change: Callable[[O], O], ref: Ref[Any], *, by: str, **options: Any
    ) -> Ensured[O]:
        found: O | None = await self.find(ref)
        if found is None:
            return Ensured(await self.create(_changed(obj, change, ref), **options), "created")
        # Written down first: who changes a tree in place must still differ from what was read.
        before: Any = codec.decode_tree(codec.encode(found) if isinstance(found, Object) else codec.encode(found.tree))
        wanted = _changed(found, change, ref)
        if same(before, codec.to_tree(wanted)):
            return Ensured(found, "unchanged")
        if by == "patch":
            return Ensured(await self.patch(ref, MergePatch.between(before, wanted), **options), "updated")
        return Ensured(await self.update(wanted, **options), "updated")


def _changed(obj: O, change: Callable[[O], O], ref: Ref[Any]) -> O:
    wanted = change(obj)
    if not isinstance(wanted, Object | Unstructured):  # pyright: ignore[reportUnnecessaryIsInstance]  # a forgotten return
        raise ConfigError(f"{ref}: the change must return the object that it wants, and this one returned nothing")
    place = wanted.namespace or ref.namespace
    if wanted.name != ref.name or place != ref.namespace or wanted.ref.gvk != ref.gvk:
        raise ConfigError(f"{ref}: the change made another object of it, {wanted.ref}; make that one by itself")
    return wanted
