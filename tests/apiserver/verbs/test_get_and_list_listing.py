import pytest

from levelset.apiserver.resources.served_resource import ServedResource
from levelset.apiserver.verbs.get_and_list import Ask, Listing, ListQuery, parse_list, parse_revision, read_steps
from levelset.apiserver.wire.status_errors import ExpiredToken
from levelset.errors import BadRequest, Expired, Invalid
from levelset.storage import Item, Page

CONFIGMAPS = ServedResource("", "v1", "ConfigMap", "configmaps", "configmap", "ConfigMapList", True, "v1")


def query(**parameters: str) -> ListQuery:
    return parse_list(CONFIGMAPS, {name: (value,) for name, value in parameters.items()})


def item(name: str, label: str = "") -> Item:
    labels = f',"labels":{{"l":"{label}"}}' if label else ""
    value = f'{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}"{labels}}}}}'
    return Item(CONFIGMAPS.key("x", name), value.encode(), 5, 5, 1)


def one_page(asked: ListQuery, *items: Item, remaining: int = 0) -> tuple[Ask, Listing]:
    steps = read_steps(CONFIGMAPS, "x", asked)
    ask = next(steps)
    with pytest.raises(StopIteration) as end:
        steps.send(Page(items, 9, remaining > 0, remaining))
    return ask, end.value.value


def test_nothing_said_means_the_newest_and_everything() -> None:
    assert query() == ListQuery()


def test_any_version_ignores_the_limit() -> None:
    assert query(resourceVersion="0", limit="2") == ListQuery()


def test_a_version_alone_means_not_older() -> None:
    assert query(resourceVersion="7") == ListQuery(not_older=7)
    assert query(resourceVersion="7", resourceVersionMatch="NotOlderThan", limit="2") == ListQuery(limit=2, not_older=7)


def test_a_version_with_a_limit_or_so_asked_is_exact() -> None:
    assert query(resourceVersion="7", limit="2") == ListQuery(limit=2, exact=7)
    assert query(resourceVersion="7", resourceVersionMatch="Exact") == ListQuery(exact=7)


@pytest.mark.parametrize("text", ["0", "-1", ""])
def test_a_limit_that_is_not_positive_is_none(text: str) -> None:
    assert query(limit=text).limit is None


@pytest.mark.parametrize("text", ["x", "1.5", "9" * 30, "--1", "²"])
def test_a_limit_must_be_a_number(text: str) -> None:
    with pytest.raises(BadRequest):
        query(limit=text)


@pytest.mark.parametrize("text", ["abc", "-1", "1.0", "9" * 19, "9" * 40, "²"])
def test_a_version_must_be_a_number(text: str) -> None:
    with pytest.raises(BadRequest):
        parse_revision(text)


@pytest.mark.parametrize(
    ("parameters", "reason"),
    [
        ({"resourceVersionMatch": "Exact"}, "FieldValueForbidden"),
        ({"resourceVersionMatch": "Exact", "resourceVersion": "0"}, "FieldValueForbidden"),
        ({"resourceVersionMatch": "Other", "resourceVersion": "7"}, "FieldValueNotSupported"),
        ({"resourceVersionMatch": "Exact", "resourceVersion": "7", "continue": "x"}, "FieldValueForbidden"),
        ({"sendInitialEvents": "true"}, "FieldValueForbidden"),
    ],
)
def test_parameters_that_do_not_go_together_are_invalid(parameters: dict[str, str], reason: str) -> None:
    with pytest.raises(Invalid) as caught:
        query(**parameters)
    assert [one.reason for one in caught.value.causes] == [reason]
    assert caught.value.details == {"group": "meta.k8s.io", "kind": "ListOptions"}


@pytest.mark.parametrize("text", ["nonsense", "e30", "%%%", "é", "eyJ2IjoxLCJydiI6MCwiYWZ0ZXIiOiIifQ", "W10"])
def test_a_token_that_nobody_gave_is_a_bad_request(text: str) -> None:
    with pytest.raises(BadRequest):
        query(**{"continue": text, "limit": "1"})


def test_a_page_with_more_behind_it_has_a_token_that_goes_on_at_its_revision() -> None:
    ask, listing = one_page(query(limit="2"), item("a"), item("b"), remaining=3)
    assert (ask.prefix, ask.limit, listing.remaining) == (CONFIGMAPS.prefix_in("x"), 2, 3)
    resumed = query(**{"continue": listing.token})
    assert resumed == ListQuery(exact=9, after="b", is_resumed=True)
    ask, listing = one_page(resumed, item("c"))
    assert (ask.after, ask.revision) == (CONFIGMAPS.key("x", "b"), 9)
    assert (listing.token, listing.remaining) == ("", None)


def test_a_token_excludes_a_version_but_for_zero() -> None:
    token = one_page(query(limit="1"), item("a"), remaining=1)[1].token
    assert query(**{"continue": token, "resourceVersion": "0"}).after == "a"
    with pytest.raises(BadRequest):
        query(**{"continue": token, "resourceVersion": "9"})


def test_an_expired_page_offers_a_token_that_goes_on_with_the_newest() -> None:
    token = one_page(query(limit="1"), item("a"), remaining=1)[1].token
    steps = read_steps(CONFIGMAPS, "x", query(**{"continue": token, "limit": "1"}))
    next(steps)
    with pytest.raises(ExpiredToken) as caught:
        steps.throw(Expired("too old"))
    assert query(**{"continue": caught.value.resume}) == ListQuery(after="a")


def test_an_expired_first_page_offers_nothing() -> None:
    steps = read_steps(CONFIGMAPS, "x", query(resourceVersion="3", resourceVersionMatch="Exact"))
    next(steps)
    with pytest.raises(Expired) as caught:
        steps.throw(Expired("too old"))
    assert not isinstance(caught.value, ExpiredToken)


def test_a_selector_reads_on_at_the_same_revision_until_the_page_is_full() -> None:
    steps = read_steps(CONFIGMAPS, "x", query(limit="1", labelSelector="l=1"))
    assert next(steps).revision is None
    ask = steps.send(Page((item("a"), item("b")), 9, True, 2))
    assert (ask.after, ask.revision) == (CONFIGMAPS.key("x", "b"), 9)
    with pytest.raises(StopIteration) as end:
        steps.send(Page((item("c", "1"), item("d", "1")), 9, False, 0))
    listing: Listing = end.value.value
    assert [one.key for one in listing.items] == [CONFIGMAPS.key("x", "c")]
    assert listing.token
    assert listing.remaining is None


def test_a_page_filled_by_the_very_last_item_has_no_token() -> None:
    _, listing = one_page(query(limit="1", labelSelector="l=1"), item("a"), item("b", "1"))
    assert listing.token == ""


def test_a_name_narrows_what_is_read() -> None:
    ask, listing = one_page(query(fieldSelector="metadata.name=a"), item("a"), item("ab"))
    assert ask.prefix == CONFIGMAPS.key("x", "a")
    assert [one.key for one in listing.items] == [CONFIGMAPS.key("x", "a")]
