"""How a failed wait is told."""

from levelset.testing.failure_report import condition_words, object_words
from tests.testing.shop import order


def wait(condition, *, within: float = 1.0):
    return condition


def is_packed(found: object) -> bool:
    return False


def test_a_function_is_told_by_its_name() -> None:
    assert condition_words(is_packed) == "is_packed did not become true"


def test_a_lambda_is_told_as_it_was_written_without_the_line_around_it() -> None:
    alone = wait(lambda it: it.spec.items == 5)
    among = wait(lambda it: it.spec.items in (1, 2) and not it.status, within=3)
    spread = wait(
        lambda it: it.spec.items
        == 7
    )  # fmt: skip
    assert condition_words(alone) == "this did not become true: it.spec.items == 5"
    assert condition_words(among) == "this did not become true: it.spec.items in (1, 2) and not it.status"
    assert condition_words(spread) == "this did not become true: it.spec.items == 7"


def test_what_has_no_text_is_told_all_the_same() -> None:
    assert condition_words(eval("lambda it: True")) == "the condition did not become true"
    assert condition_words(None) == "it was not there"


def test_an_object_is_told_as_it_is() -> None:
    assert object_words(None) == "there is no such object"
    assert object_words(order(items=3)).endswith('"spec":{"items":3}}')
