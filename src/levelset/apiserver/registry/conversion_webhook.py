"""CRD version conversion by webhook: runs synchronous code that may need a conversion, awaits the webhook, retries.

Objects are decoded deep inside of synchronous code, but a webhook has to be awaited. So a conversion whose result is
not cached is raised (`ConversionRequired`) up to a caller that can await; there all needed conversions are requested
with one call, and the same code is run again and finds them in the cache. Only kinds with a conversion webhook
(`ServedResource.converts_by_webhook`) come here; all others are converted synchronously.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b
from itertools import islice
from random import Random
from typing import Any, Final, TypeVar

from levelset.apiserver.registry.conversion import ConversionRequired
from levelset.apiserver.registry.metadata import new_uid
from levelset.apiserver.registry.storage_codec import served_tree
from levelset.apiserver.resources.json_members import list_member, map_member
from levelset.apiserver.resources.served_resource import Object, ServedResource
from levelset.apiserver.wire.webhook_client import WebhookClient
from levelset.errors import Malformed, ServerFailed, Unreachable
from levelset.objects import decode_tree, encode_tree
from levelset.objects.json_tree import is_list, is_map
from levelset.storage import Item

__all__ = ["WebhookConverter", "convert_items", "run_with_conversions"]

log = logging.getLogger(__name__)

_GROUP: Final = "apiextensions.k8s.io"
_KIND: Final = "ConversionReview"
_VERSIONS: Final = ("v1", "v1beta1")
_TIMEOUT_SECONDS: Final = 30.0
_MAX_OBJECTS_PER_REVIEW: Final = 500
_MAX_CACHED_BYTES: Final = 64 * 1024 * 1024


class WebhookConverter:
    """The conversion webhook of one CRD, with a cache of converted objects.

    The cache holds recently used objects up to 64 MiB: many clients watch, list and update the same objects.
    """

    def __init__(self, webhook: Object, client: WebhookClient, random: Random) -> None:
        self._client_config = map_member(webhook, "clientConfig")
        supported = list_member(webhook, "conversionReviewVersions")
        self._version = next((one for one in supported if one in _VERSIONS), "v1")
        self._client = client
        self._random = random
        # By digest of the object and the target version, the least recently used first.
        self._converted: dict[bytes, bytes] = {}
        self._size = 0

    def __call__(self, tree: Object, api_version: str) -> Object:
        """The object in the given version from the cache; raises ConversionRequired if it is not cached."""
        if tree.get("apiVersion") == api_version:
            return tree
        data = encode_tree(tree)
        key = _key(data, api_version)
        found = self._converted.pop(key, None)
        if found is None:
            raise ConversionRequired(self, data, api_version)
        self._converted[key] = found  # moves it to the end: evicted last
        converted = decode_tree(found)
        assert is_map(converted)  # checked before it was cached
        return converted

    async def convert_all(self, required: Sequence[ConversionRequired]) -> None:
        """Calls the webhook for all of these objects, in as few calls as possible; raises ServerFailed if it fails."""
        for version in sorted({one.api_version for one in required}):
            # Each object once, however often it is needed.
            unique = iter({one.data: one for one in required if one.api_version == version}.values())
            while batch := list(islice(unique, _MAX_OBJECTS_PER_REVIEW)):
                for one, converted in zip(batch, await self._call(batch, version), strict=True):
                    self._cache(_key(one.data, version), converted)
        # Evict later: the caller reads these results before the event loop runs anything else.
        asyncio.get_running_loop().call_soon(self._evict)

    async def _call(self, required: Sequence[ConversionRequired], api_version: str) -> list[bytes]:
        """The converted objects, in the order of the given ones."""
        trees = [decode_tree(one.data) for one in required]
        uid = new_uid(self._random)
        request = {"uid": uid, "desiredAPIVersion": api_version, "objects": trees}
        body = encode_tree({"kind": _KIND, "apiVersion": f"{_GROUP}/{self._version}", "request": request})
        first: Any = trees[0]
        kind = f"{first.get('apiVersion')}, Kind={first.get('kind')}"
        try:
            response = await self._client.call(self._client_config, body, seconds=_TIMEOUT_SECONDS)
            converted = _read_response(response, uid, f"{_GROUP}/{self._version}", len(trees))
            return [_checked(one, api_version, index) for index, one in enumerate(converted)]
        except (Unreachable, Malformed) as error:
            log.warning("conversion failed", extra={"kind": kind, "api_version": api_version, "cause": str(error)})
            text = f"conversion webhook for {kind} failed: {error}"
            raise ServerFailed(text, code=500, reason="") from error

    def _cache(self, key: bytes, converted: bytes) -> None:
        self._size += len(converted) - len(self._converted.pop(key, b""))
        self._converted[key] = converted

    def _evict(self) -> None:
        """Evicts the least recently used objects until the cache fits its limit."""
        while self._size > _MAX_CACHED_BYTES:
            self._size -= len(self._converted.pop(next(iter(self._converted))))


class _ConversionFailed(Malformed):
    """The response of a conversion webhook is invalid, or reports a failure."""


def _key(data: bytes, api_version: str) -> bytes:
    return blake2b(data, digest_size=20, key=api_version.encode()[:64]).digest()


def _read_response(body: bytes, uid: str, version: str, count: int) -> list[Any]:
    review: Any = decode_tree(body)
    if not is_map(review) or (review.get("apiVersion"), review.get("kind")) != (version, _KIND):
        raise _ConversionFailed(f"expected webhook response of {version}, Kind={_KIND}")
    response: Any = review.get("response")
    if not is_map(response):
        raise _ConversionFailed("no response provided")
    if response.get("uid") != uid:
        raise _ConversionFailed(f'expected response.uid="{uid}", got "{response.get("uid") or ""}"')
    result = map_member(response, "result")
    if result.get("status") != "Success":
        message = result.get("message") or ""
        raise _ConversionFailed(str(message) or "the response has the status Failure without a message")
    converted: Any = response.get("convertedObjects")
    if not is_list(converted) or len(converted) != count:
        got = len(converted) if is_list(converted) else 0
        raise _ConversionFailed(f"webhook returned {got} objects, expected {count}")
    return converted


def _checked(converted: Any, api_version: str, index: int) -> bytes:
    at = f"invalid converted object at index {index}"
    if not is_map(converted) or not is_map(converted.get("metadata")):
        raise _ConversionFailed(f"{at}: it has no metadata")
    if converted.get("apiVersion") != api_version:
        raise _ConversionFailed(
            f"{at}: invalid groupVersion (expected: {api_version}, received: {converted.get('apiVersion')})"
        )
    return encode_tree(converted)


ResultT = TypeVar("ResultT")


async def run_with_conversions(function: Callable[[], ResultT]) -> ResultT:
    """The result of a synchronous function that may need conversions; it is called again after each conversion.

    The function must have no side effects before its last conversion. Raises what the function raises, and ServerFailed
    if a conversion fails.
    """
    while True:
        try:
            return function()
        except ConversionRequired as required:
            await required.converter.convert_all([required])


async def convert_items(served: ServedResource, items: Iterable[Item]) -> None:
    """Converts the items that need it, with as few calls as possible; then they can be read synchronously."""
    listed = list(items)
    while required := _required(served, listed):
        await required[0].converter.convert_all(required)  # all objects of a kind have the same converter


def _required(served: ServedResource, items: list[Item]) -> list[ConversionRequired]:
    found: list[ConversionRequired] = []
    for item in items:
        try:
            served_tree(served, item)
        except ConversionRequired as required:
            found.append(required)
    return found
