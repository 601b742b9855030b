"""Conversion between the versions of a custom kind by a webhook, as its definition names one.

Objects are read deep inside of code that does not wait, and a webhook must be waited for. So a conversion that is not
known yet is raised (`NeedsConversion`) up to a place that can wait; there it is asked for, together with all others
that are needed, and then the same is tried again and finds it known. What was converted stays known for a while: many
watch, list and update the same objects.

Waits for the conversions that code needs which cannot wait itself: asks for them, and tries again.

Only kinds whose versions a webhook converts (`Served.awaits`) come here; all others are read and stored at once.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b
from itertools import islice
from random import Random
from typing import Any, Final, TypeVar

from levelset.apiserver.registry.conversion import NeedsConversion
from levelset.apiserver.registry.metadata import new_uid
from levelset.apiserver.registry.storage_codec import served_tree
from levelset.apiserver.resources.json_members import items, part
from levelset.apiserver.resources.served_resource import Object, ServedResource
from levelset.apiserver.wire.webhook_targets import Targets
from levelset.errors import Malformed, ServerFailed, Unreachable
from levelset.objects import decode_tree, encode_tree
from levelset.objects.json_tree import is_list, is_map
from levelset.storage import Item

__all__ = ["RemoteConversion", "convert", "settle"]

log = logging.getLogger(__name__)

_GROUP: Final = "apiextensions.k8s.io"
_KIND: Final = "ConversionReview"
_VERSIONS: Final = ("v1", "v1beta1")
_SECONDS: Final = 30.0
_AT_A_TIME: Final = 500
_MOST_KEPT: Final = 64 * 1024 * 1024


class RemoteConversion:
    """Converts the objects of one definition; called with an object and the apiVersion that is wanted."""

    def __init__(self, webhook: Object, targets: Targets, random: Random) -> None:
        self._client = part(webhook, "clientConfig")
        named = items(webhook, "conversionReviewVersions")
        self._version = next((one for one in named if one in _VERSIONS), "v1")
        self._targets = targets
        self._random = random
        self._known: dict[bytes, bytes] = {}
        self._size = 0

    def __call__(self, tree: Object, wanted: str) -> Object:
        """The object in the wanted version, if that is known; raises NeedsConversion."""
        if tree.get("apiVersion") == wanted:
            return tree
        data = encode_tree(tree)
        key = _key(data, wanted)
        found = self._known.pop(key, None)
        if found is None:
            raise NeedsConversion(self, data, wanted)
        self._known[key] = found  # the one that was used last is forgotten last
        made = decode_tree(found)
        assert is_map(made)  # it was looked at before it was kept
        return made

    async def fulfil(self, needs: Sequence[NeedsConversion]) -> None:
        """Has the webhook convert all of these, a list of them with one call; raises ServerFailed if it does not."""
        wanted = {one.wanted for one in needs}
        for version in sorted(wanted):
            # Each of them once, however many times it is needed.
            unique = iter({one.data: one for one in needs if one.wanted == version}.values())
            while batch := list(islice(unique, _AT_A_TIME)):
                for one, made in zip(batch, await self._ask(batch, version), strict=True):
                    self._keep(_key(one.data, version), made)
        # Not now: whoever waited for these reads them next, before anything else happens.
        asyncio.get_running_loop().call_soon(self._forget)

    async def _ask(self, needs: Sequence[NeedsConversion], wanted: str) -> list[bytes]:
        """What the webhook makes of these objects, in their order."""
        trees = [decode_tree(one.data) for one in needs]
        uid = new_uid(self._random)
        request = {"uid": uid, "desiredAPIVersion": wanted, "objects": trees}
        body = encode_tree({"kind": _KIND, "apiVersion": f"{_GROUP}/{self._version}", "request": request})
        first: Any = trees[0]
        named = f"{first.get('apiVersion')}, Kind={first.get('kind')}"
        try:
            answer = await self._targets.call(self._client, body, seconds=_SECONDS)
            converted = _read(answer, uid, f"{_GROUP}/{self._version}", len(trees))
            return [_checked(one, wanted, index) for index, one in enumerate(converted)]
        except (Unreachable, Malformed) as error:
            log.warning("conversion failed", extra={"kind": named, "wanted": wanted, "cause": str(error)})
            text = f"conversion webhook for {named} failed: {error}"
            raise ServerFailed(text, code=500, reason="") from error

    def _keep(self, key: bytes, made: bytes) -> None:
        self._size += len(made) - len(self._known.pop(key, b""))
        self._known[key] = made

    def _forget(self) -> None:
        """Forgets those that were not used for longest, if it is too much."""
        while self._size > _MOST_KEPT:
            self._size -= len(self._known.pop(next(iter(self._known))))


class _BadConversion(Malformed):
    """What a webhook answered is no conversion of what it was sent."""


def _key(data: bytes, wanted: str) -> bytes:
    return blake2b(data, digest_size=20, key=wanted.encode()[:64]).digest()


def _read(body: bytes, uid: str, version: str, count: int) -> list[Any]:
    review: Any = decode_tree(body)
    if not is_map(review) or (review.get("apiVersion"), review.get("kind")) != (version, _KIND):
        raise _BadConversion(f"expected webhook response of {version}, Kind={_KIND}")
    response: Any = review.get("response")
    if not is_map(response):
        raise _BadConversion("no response provided")
    if response.get("uid") != uid:
        raise _BadConversion(f'expected response.uid="{uid}", got "{response.get("uid") or ""}"')
    result = part(response, "result")
    if result.get("status") != "Success":
        said = result.get("message") or ""
        raise _BadConversion(str(said) or "it answered with Failure, and without a message")
    converted: Any = response.get("convertedObjects")
    if not is_list(converted) or len(converted) != count:
        got = len(converted) if is_list(converted) else 0
        raise _BadConversion(f"webhook returned {got} objects, expected {count}")
    return converted


def _checked(made: Any, wanted: str, index: int) -> bytes:
    at = f"invalid converted object at index {index}"
    if not is_map(made) or not is_map(made.get("metadata")):
        raise _BadConversion(f"{at}: it has no metadata")
    if made.get("apiVersion") != wanted:
        raise _BadConversion(f"{at}: invalid groupVersion (expected: {wanted}, received: {made.get('apiVersion')})")
    return encode_tree(made)


T = TypeVar("T")


async def settle(function: Callable[[], T]) -> T:
    """What the function gives, once all conversions that it needs are known; it must have no effects before that.

    Raises what the function raises, and ServerFailed if a conversion cannot be had.
    """
    while True:
        try:
            return function()
        except NeedsConversion as need:
            await need.by.fulfil([need])


async def convert(served: ServedResource, items: Iterable[Item]) -> None:
    """Has all of these converted that must be, with as few calls as possible; then they can be read at once."""
    listed = list(items)
    while needs := _needs(served, listed):
        await needs[0].by.fulfil(needs)  # the objects of a kind are all converted by the same one


def _needs(served: ServedResource, items: list[Item]) -> list[NeedsConversion]:
    found: list[NeedsConversion] = []
    for item in items:
        try:
            served_tree(served, item)
        except NeedsConversion as need:
            found.append(need)
    return found
