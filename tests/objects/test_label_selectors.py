"""Label selectors: parse, print, match, and the tree form."""

import pickle
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levelset.errors import BadSelector
from levelset.objects.json_tree import Tree
from levelset.objects.label_selectors import LabelSelector, Operator, Requirement

parse = LabelSelector.parse

values = st.from_regex(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,5}[A-Za-z0-9])?)?", fullmatch=True)
keys = st.from_regex(r"([a-z0-9]{1,3}(\.[a-z]{1,3})?/)?[A-Za-z0-9]{1,4}", fullmatch=True) | st.sampled_from(
    ["in", "notin"]
)
requirements = st.one_of(
    st.builds(Requirement, keys, st.sampled_from([Operator.EQUALS, Operator.NOT_EQUALS]), st.tuples(values)),
    st.builds(
        Requirement, keys, st.sampled_from([Operator.IN, Operator.NOT_IN]), st.lists(values, min_size=1).map(tuple)
    ),
    st.builds(Requirement, keys, st.sampled_from([Operator.EXISTS, Operator.DOES_NOT_EXIST])),
    st.builds(
        Requirement,
        keys,
        st.sampled_from([Operator.GREATER_THAN, Operator.LESS_THAN]),
        st.tuples(st.integers(0, 2**63 - 1).map(str)),
    ),
)
selectors = st.lists(requirements, max_size=5).map(lambda some: LabelSelector(tuple(some)))
labels = st.dictionaries(keys, values | st.integers(0, 99).map(str), max_size=4)

# Four objects, and the selections of kube-apiserver among them.
OBJECTS = {
    "a": {"env": "prod", "tier": "1"},
    "b": {"env": "test", "tier": "2"},
    "c": {"env": "", "tier": "10"},
    "d": {},
}


@pytest.mark.parametrize(
    ("text", "selected"),
    [("", "abcd"), ("env=prod", "a"), ("env==test", "b"), ("env=nothing", ""), ("env=", "c"), ("env!=prod", "bcd"),
     ("env!=", "abd"), ("env in (prod, test)", "ab"), ("env in (prod)", "a"), ("env in ()", "c"),
     ("env notin (prod)", "bcd"), ("env notin ()", "abd"), ("env", "abc"), ("!env", "d"), ("env=prod,tier=1", "a"),
     ("env=prod,tier=2", ""), ("env,tier!=1,env!=test", "c"), ("tier>1", "bc"), ("tier<10", "ab"), ("tier>9", "c"),
     ("env>1", ""), ("env in (,prod)", "ac"), ("nothing,!nothing", "")],
)  # fmt: skip
def test_a_selector_selects_what_a_real_server_selects(text, selected):
    assert "".join(name for name, has in OBJECTS.items() if parse(text).matches(has)) == selected


@pytest.mark.parametrize(
    ("text", "printed"),
    [("x=a,a=x", "a=x,x=a"), ("x= ,z= ", "x=,z="), ("x==a", "x=a"), ("\rx", "x"), ("x in (b,a,b)", "x in (a,b)"),
     ("foo  in\t (abc)", "foo in (abc)"), ("x notin\n (abc)", "x notin (abc)"), ("x in (abc,)", "x in (,abc)"),
     ("x in (a,,)", "x in (,a)"), ("x notin ( )", "x notin ()"), ("x notin (, a)", "x notin (,a)"),
     ("x notin (abc,,def),bar,z in (),w", "bar,w,x notin (,abc,def),z in ()"), ("! x", "!x"), (" ", ""),
     ("a in (x,y,notin, z,in)", "a in (in,notin,x,y,z)"), ("in in (in)", "in in (in)"), ("in", "in"),
     ("notin=in", "notin=in"), ("a>1,a<5", "a>1,a<5"), ("a,a,a", "a"), ("a=in", "a=in"), ("x<007", "x<007"),
     ("0.1.2.domain/99 notin (10.10.100.1, tick.tack.clock)", "0.1.2.domain/99 notin (10.10.100.1,tick.tack.clock)")],
)  # fmt: skip
def test_a_selector_prints_in_canonical_form(text, printed):
    assert str(parse(text)) == printed
    assert parse(printed) == parse(text)


@pytest.mark.parametrize(
    ("text", "position", "expected"),
    [("a in b", 5, "'('"), ("a in (b", 7, "',' or ')'"), ("=x", 0, "label key"), ("a>x", 2, "integer"),
     ("a===b", 3, "label value"), ("a,,b", 2, "label key"), ("a b", 2, "one of ="), ("x/y/z=1", 0, "no label key"),
     ("a=-b", 2, "no label value"), ("!a=b", 2, "',' or the end"), ("x=a||y=b", 2, "no label value"),
     ("x==a==b", 4, "',' or the end"), ("x<a", 2, "integer"), (",x", 0, "label key"), ("x,", 2, "label key"),
     ("x nott in (y)", 2, "one of ="), ("a in (xyz)b notin ()", 10, "',' or the end"), ("a in (b c)", 8, "',' or ')'"),
     ("a in", 4, "'('"), ("!", 1, "label key"), ("!!a", 1, "label key"), ("a>", 2, "integer"), ("a>-1", 2, "no label"),
     ("a>9223372036854775808", 2, "integer"), ("a=(b)", 2, "label value"), ("a in ((b))", 6, "label value"),
     ("\x00", 0, "no label key"), ("é", 0, "no label key"), ("a=" + "b" * 64, 2, "than 63"), ("a\x0b=b", 0, "label"),
     ("a in (=)", 6, "label value"), ("a in (b=)", 7, "',' or ')'"), ("(a)", 0, "label key"), ("a!b", 1, "one of =")],
)  # fmt: skip
def test_a_broken_selector_is_refused_with_position_and_expectation(text, position, expected):
    with pytest.raises(BadSelector) as caught:
        parse(text)
    assert caught.value.position == position
    assert expected in str(caught.value)


@given(selectors)
def test_a_printed_selector_parses_to_an_equal_one(selector):
    again = parse(str(selector))
    assert again == selector
    assert hash(again) == hash(selector)
    assert str(again) == str(selector)


@given(selectors, labels)
def test_a_selector_matches_when_each_requirement_does(selector, has):
    assert selector.matches(has) == all(one.matches(has) for one in selector.requirements)


@given(requirements, labels)
def test_a_requirement_and_its_opposite_divide_all_objects(requirement, has):
    opposites = {"=": "!=", "!=": "=", "in": "notin", "notin": "in", "exists": "!", "!": "exists"}
    if requirement.operator in opposites:
        opposite = Requirement(requirement.key, Operator(opposites[requirement.operator]), requirement.values)
        assert requirement.matches(has) != opposite.matches(has)


@given(selectors, selectors, labels)
def test_two_joined_selectors_select_the_intersection(one, other, has):
    assert (one & other).matches(has) == (one.matches(has) and other.matches(has))
    assert one & other == other & one


@pytest.mark.parametrize(
    ("value", "greater"),
    [("6", True), ("5", False), ("4", False), ("x", False), ("", False), ("5.5", False), ("1_0", False), (" 6", False),
     ("+6", True), ("-6", False), ("007", True), ("9223372036854775807", True), ("9223372036854775808", False),
     ("9" * 5000, False), ("\u0667", False)],
)  # fmt: skip
def test_greater_compares_integers_of_64_bits_and_nothing_else(value, greater):
    assert parse("a>5").matches({"a": value}) == greater


def test_less_also_needs_the_label():
    assert parse("a<5").matches({"a": "4"})
    assert not parse("a<5").matches({"a": "5"})
    assert not parse("a<5").matches({})


def test_a_selector_is_built_from_labels():
    assert LabelSelector.of(app="web", tier="") == parse("app=web,tier=")
    assert LabelSelector.of({"example.com/part": "a"}, app="web") == parse("example.com/part=a,app=web")
    assert LabelSelector.of() == LabelSelector.everything()


@pytest.mark.parametrize("bad", [{"-a": "b"}, {"a": "-b"}, {"a": 1}, {"a": None}, {"": ""}, {1: "a"}])
def test_invalid_labels_make_no_selector(bad):
    with pytest.raises(BadSelector) as caught:
        LabelSelector.of(bad)
    assert caught.value.field is not None


def test_everything_and_nothing():
    assert LabelSelector.everything().matches({})
    assert LabelSelector.everything().matches(None)
    assert LabelSelector.everything().is_everything
    assert not LabelSelector.nothing().is_everything
    assert not any(LabelSelector.nothing().matches(has) for has in [{}, None, {"nothing": ""}])
    assert parse(str(LabelSelector.nothing())) == LabelSelector.nothing()


def test_the_exact_value_that_a_selector_requires_is_known():
    selector = parse("a=1,b in (2),c in (3,4),d!=5,e")
    assert [selector.requires_exact(key) for key in "abcdef"] == ["1", "2", None, None, None, None]


def test_a_selector_is_a_value():
    selector = parse("a=1,b")
    assert {selector: 1}[parse("b,a=1")] == 1
    assert pickle.loads(pickle.dumps(selector)).matches({"a": "1", "b": ""})
    with pytest.raises(AttributeError):
        setattr(selector, "requirements", ())  # noqa: B010 - the type checker knows that it fails
    assert parse("a=x") != parse("a in (x)")


@pytest.mark.parametrize(
    ("key", "operator", "some", "field"),
    [("-", Operator.EXISTS, (), "key"), ("a", Operator.IN, (), "values"), ("a", Operator.EXISTS, ("b",), "values"),
     ("a", Operator.EQUALS, (), "values"), ("a", Operator.NOT_EQUALS, ("a", "b"), "values"),
     ("a", Operator.LESS_THAN, ("a",), "values"), ("a", Operator.IN, ("-",), "values")],
)  # fmt: skip
def test_a_requirement_is_checked_when_it_is_made(key, operator, some, field):
    with pytest.raises(BadSelector) as caught:
        Requirement(key, operator, some)
    assert caught.value.field == field


TREE: dict[str, Tree] = {
    "matchLabels": {"app": "web"},
    "matchExpressions": [
        {"key": "tier", "operator": "In", "values": ["a", "b"]},
        {"key": "track", "operator": "NotIn", "values": ["x"]},
        {"key": "up", "operator": "Exists"},
        {"key": "x.y/z", "operator": "DoesNotExist"},
    ],
}


def test_a_tree_and_a_text_give_the_same_selector():
    selector = LabelSelector.from_tree(TREE)
    assert str(selector) == "app=web,tier in (a,b),track notin (x),up,!x.y/z"
    assert selector.to_tree() == TREE


@pytest.mark.parametrize("tree", [{}, {"matchLabels": {}}, {"matchLabels": None, "matchExpressions": None}])
def test_an_empty_tree_selects_everything(tree):
    assert LabelSelector.from_tree(tree) == LabelSelector.everything()
    assert LabelSelector.everything().to_tree() == {}


def test_an_absent_selector_selects_nothing():
    assert LabelSelector.from_tree(None) == LabelSelector.nothing()
    assert LabelSelector.nothing().to_tree() is None


def expressions(*some: Any) -> dict[str, Any]:
    return {"matchExpressions": list(some)}


@pytest.mark.parametrize(
    ("tree", "field"),
    [([], ""), ("a=b", ""), (True, ""), ({"matchLabel": {}}, "matchLabel"), ({"matchLabels": []}, "matchLabels"),
     ({"matchLabels": {"a": 1}}, "matchLabels.a"), ({"matchLabels": {"a": "-"}}, "matchLabels.a"),
     ({"matchLabels": {"x.y/": "b"}}, "matchLabels[x.y/]"), ({"matchExpressions": {}}, "matchExpressions"),
     (expressions(None), "matchExpressions[0]"), (expressions({}), "matchExpressions[0].key"),
     (expressions({"key": "a"}), "matchExpressions[0].operator"),
     (expressions({"key": "a", "operator": "Gt", "values": ["1"]}), "matchExpressions[0].operator"),
     (expressions({"key": "a", "operator": "in", "values": ["1"]}), "matchExpressions[0].operator"),
     (expressions({"key": "a", "operator": "In"}), "matchExpressions[0].values"),
     (expressions({"key": "a", "operator": "NotIn", "values": []}), "matchExpressions[0].values"),
     (expressions({"key": "a", "operator": "Exists", "values": ["b"]}), "matchExpressions[0].values"),
     (expressions({"key": "a", "operator": "In", "values": "b"}), "matchExpressions[0].values"),
     (expressions({"key": "a", "operator": "In", "values": ["b", 1]}), "matchExpressions[0].values[1]"),
     (expressions({"key": "a", "operator": "Exists", "value": 1}), "matchExpressions[0].value"),
     (expressions({"key": "a", "operator": "Exists"}, {"key": "-", "operator": "Exists"}), "matchExpressions[1].key")],
)  # fmt: skip
def test_a_broken_tree_is_refused_with_its_field(tree, field):
    with pytest.raises(BadSelector) as caught:
        LabelSelector.from_tree(tree)
    assert caught.value.field == field


@given(selectors, labels)
def test_a_selector_and_its_tree_select_the_same(selector, has):
    if any(one.operator in "<>" for one in selector.requirements):
        with pytest.raises(BadSelector):
            selector.to_tree()
    else:
        assert LabelSelector.from_tree(selector.to_tree()).matches(has) == selector.matches(has)


trees = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from(["In", "Exists", "a"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["matchLabels", "matchExpressions", "key", "operator", "values", "\ud800"]), inner
        )
    ),
    max_leaves=12,
)


@given(trees)
def test_any_tree_is_a_selector_or_a_bad_selector(tree):
    try:
        LabelSelector.from_tree(tree)
    except BadSelector as error:
        assert error.field is not None
        assert str(error).isprintable()


def test_any_text_is_a_selector_or_a_bad_selector():
    source = random.Random(1)
    pieces = ["a", "b-", "in", "notin", "=", "==", "!=", "!", "(", ")", ",", " ", "\t", ">", "<", "1", "/", "\x00", "é"]
    for _ in range(8000):
        text = "".join(source.choices([*pieces, "\ud800"], k=source.randrange(12)))
        try:
            selector = parse(text)
        except BadSelector as error:
            assert error.position in range(len(text) + 1)
            assert str(error).isprintable()
        else:
            assert parse(str(selector)) == selector


@pytest.mark.parametrize("value", [None, 3, b"a=b", ["a"], {}])
def test_a_selector_must_be_a_string(value):
    with pytest.raises(BadSelector, match="must be a text"):
        parse(value)


def test_a_very_long_text_is_parsed_in_linear_time():
    assert len(parse(",".join(f"k{i}=v" for i in range(5000))).requirements) == 5000
    for text in ["a" * 100_000, "(" * 100_000, "!" * 100_000, "a in (" + "," * 100_000, "a=b," * 30_000]:
        with pytest.raises(BadSelector):
            parse(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
     ("a=b=c", "found '=', expected: ',' or 'end of string'"), ("a,", "found '', expected: identifier after ','"),
     ("a in (x", "unable to parse requirement: found '', expected: ',' or ')'")],
)  # fmt: skip
def test_a_broken_selector_has_the_words_of_kube_apiserver_too(text, words):
    with pytest.raises(BadSelector) as caught:
        LabelSelector.parse(text)
    assert caught.value.api_message == words
