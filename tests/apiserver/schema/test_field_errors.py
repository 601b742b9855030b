"""The causes of invalid fields, worded as by kube-apiserver."""

import pytest

from levelset.apiserver.schema import field_errors


@pytest.mark.parametrize(("limit", "words"), [(1, "at most 1 item"), (2, "at most 2 items"), (0, "at most 0 items")])
def test_a_limit_of_one_item_has_no_plural(limit: int, words: str) -> None:
    assert field_errors.too_many("spec.provider", 5, limit).message == f"Too many: 5: must have {words}"
