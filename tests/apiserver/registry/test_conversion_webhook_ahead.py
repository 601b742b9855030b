"""Conversions that must be waited for are asked for together, and then everything is as if it had not been so."""

import pytest

from levelset.apiserver.registry import conversion_webhook
from levelset.apiserver.registry.storage_codec import served_tree
from levelset.errors import ServerFailed
from tests.apiserver.slow import Slow, item, served


async def test_all_that_is_needed_is_asked_for_with_one_call() -> None:
    slow = Slow()
    items = [item(name) for name in "abc"]
    await conversion_webhook.convert(served(slow), items)
    assert slow.calls == [3]
    assert [served_tree(served(slow), one)["apiVersion"] for one in items] == ["example.com/v1"] * 3
    await conversion_webhook.convert(served(slow), items)
    assert slow.calls == [3]


async def test_a_function_is_tried_again_until_it_needs_nothing_more() -> None:
    slow = Slow()
    kind = served(slow)
    names = await conversion_webhook.settle(
        lambda: [served_tree(kind, item(name))["metadata"]["name"] for name in "ab"]
    )
    assert names == ["a", "b"]
    assert slow.calls == [1, 1]


async def test_a_conversion_that_cannot_be_had_is_told() -> None:
    kind = served(Slow())
    with pytest.raises(ServerFailed):
        await conversion_webhook.convert(kind, [item("broken")])
    with pytest.raises(ServerFailed):
        await conversion_webhook.settle(lambda: served_tree(kind, item("broken")))
