"""Synchronous code that needs webhook conversions: all are requested together, then the code is retried."""

import pytest

from levelset.apiserver.registry import conversion_webhook
from levelset.apiserver.registry.storage_codec import served_tree
from levelset.errors import ServerFailed
from tests.apiserver.support.slow_converter import SlowConverter, item, served


async def test_all_required_conversions_are_made_with_one_call() -> None:
    slow = SlowConverter()
    items = [item(name) for name in "abc"]
    await conversion_webhook.convert_items(served(slow), items)
    assert slow.calls == [3]
    assert [served_tree(served(slow), one)["apiVersion"] for one in items] == ["example.com/v1"] * 3
    await conversion_webhook.convert_items(served(slow), items)
    assert slow.calls == [3]


async def test_a_function_is_retried_until_it_needs_no_conversion() -> None:
    slow = SlowConverter()
    kind = served(slow)
    names = await conversion_webhook.run_with_conversions(
        lambda: [served_tree(kind, item(name))["metadata"]["name"] for name in "ab"]
    )
    assert names == ["a", "b"]
    assert slow.calls == [1, 1]


async def test_a_failed_conversion_is_raised() -> None:
    kind = served(SlowConverter())
    with pytest.raises(ServerFailed):
        await conversion_webhook.convert_items(kind, [item("broken")])
    with pytest.raises(ServerFailed):
        await conversion_webhook.run_with_conversions(lambda: served_tree(kind, item("broken")))
