from typing import Any

import pytest

from levelset.client.requests import read_fields, read_labels
from levelset.errors import BadSelector
from levelset.objects import FieldSelector, LabelSelector
from tests.client.world import Website, open_client, website

ODD: list[Any] = [5, True, ["a=b"], b"a=b", object()]


def test_a_selector_can_be_said_in_three_ways() -> None:
    assert read_labels("a=b") == read_labels({"a": "b"}) == read_labels(LabelSelector.parse("a=b"))
    assert read_fields("a=b") == read_fields({"a": "b"}) == read_fields(FieldSelector.parse("a=b"))
    assert (read_labels(None), read_fields(None)) == (None, None)


@pytest.mark.parametrize("given", ODD, ids=repr)
def test_what_is_no_selector_is_refused_and_not_taken_as_its_text(given: Any) -> None:
    with pytest.raises(BadSelector, match="is no label selector; give a text"):
        read_labels(given)
    with pytest.raises(BadSelector, match="is no field selector; give a text"):
        read_fields(given)


async def test_a_delete_with_something_that_is_no_selector_deletes_nothing() -> None:
    async with open_client() as client:
        await client.create(website("blog", labels={"5": "a"}))
        number: Any = 5
        with pytest.raises(BadSelector):
            await client.delete_collection(Website, namespace="default", labels=number)
        assert len(await client.list(Website)) == 1
