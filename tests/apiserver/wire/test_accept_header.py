import pytest

from levelset.apiserver.wire.accept_header import parse_accept


def order(header: str) -> list[str]:
    return [f"{one.type}/{one.subtype}" for one in parse_accept(header)]


def test_clauses_are_read_in_the_order_of_their_quality() -> None:
    assert order("text/html;q=0.2, a/b;as=Table ,c/d;q=0.1") == ["a/b", "text/html", "c/d"]
    assert parse_accept("a/b; as=Table ;q=0.5;v=v1")[0].parameters == {"as": "Table", "v": "v1"}


def test_a_wildcard_comes_after_what_is_behind_it_whatever_their_qualities() -> None:
    assert order("*/*;q=1,a/b;q=0.1") == ["a/b", "*/*"]
    assert order("a/*,a/b;q=0") == ["a/b", "a/*"]


@pytest.mark.parametrize("header", ["", " ", "odd", "a/", "a/b/c", ",", ";q=1"])
def test_what_cannot_be_read_is_left_out(header: str) -> None:
    assert parse_accept(header) == ()


def test_a_star_alone_accepts_everything() -> None:
    assert order("*") == ["*/*"]


@pytest.mark.parametrize(
    ("clause", "quality"), [("a/b;q=odd", 0.0), ("a/b;q= 1", 0.0), ("a/b;q=1e2", 100.0), ("a/b;q", 1.0), ("a/b", 1.0)]
)
def test_a_quality_that_is_no_number_is_zero(clause: str, quality: float) -> None:
    assert parse_accept(clause)[0].quality == quality


def test_parameters_without_a_value_or_with_two_are_ignored() -> None:
    assert parse_accept("a/b;c;d=;e=f=g;h=i=;j==;k=l")[0].parameters == {"h": "i", "j": "", "k": "l"}


def test_many_clauses_are_sorted_by_their_quality() -> None:
    header = ",".join(f"a/{number};q=0.{number}" for number in range(10, 40))
    assert order(header)[0] == "a/39"


@pytest.mark.parametrize(
    ("clause", "matches"), [("a/b", True), ("a/*", True), ("*/*", True), ("*/b", False), ("A/b", False), ("a/c", False)]
)
def test_a_clause_matches_a_media_type(clause: str, matches: bool) -> None:
    assert parse_accept(clause)[0].matches("a/b") is matches
    assert parse_accept(clause)[0].matches("a/b", any_type=True) is (matches or clause == "*/b")
