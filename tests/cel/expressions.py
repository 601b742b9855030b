"""Random expressions, mostly well typed, for comparison with another implementation."""

from hypothesis import strategies as st

__all__ = ["expressions"]

INTS = st.sampled_from(["0", "1", "2", "-1", "-7", "3", "10", "9223372036854775807", "-9223372036854775808", "x"])
UINTS = st.sampled_from(["0u", "1u", "5u", "18446744073709551615u"])
DOUBLES = st.sampled_from(["0.0", "1.5", "-2.25", "3.0", "1e300", "d"])
TEXTS = st.sampled_from(["''", "'a'", "'abc'", "'b-c'", '"é☃"', "s", "'1'", "'true'", "'-5'", "'2.5'"])
BOOLS = st.sampled_from(["true", "false", "p", "1/0 > 1", "dyn('x') > 1"])
INT_LISTS = st.sampled_from(["[1, 2, 3]", "l", "[x]", "[3, 1, 2, 1]"])
TEXT_LISTS = st.sampled_from(["['a', 'b']", "'a,b,c'.split(',')", "[s]"])
MAPS = st.sampled_from(["{'a': 1, 'b': 2}", "m", "{'k': x}"])
SPANS = st.sampled_from(["duration('1h')", "duration('90s')", "duration('-1.5s')"])
TIMES = st.sampled_from(["timestamp('2020-02-29T12:30:45Z')", "timestamp('1999-12-31T23:59:59.5+02:00')"])


def expressions() -> st.SearchStrategy[str]:
    """Expressions of any type over the variables x (int), d (double), s (string), p (bool), l (list) and m (map)."""
    leaves = st.one_of(BOOLS, INTS, DOUBLES, TEXTS)
    return st.one_of(_bools(3), _ints(3), _texts(2), _lists(2), leaves, _doubles(2))


def _ints(depth: int) -> st.SearchStrategy[str]:
    if depth == 0:
        return INTS
    below = _ints(depth - 1)
    return st.one_of(
        INTS,
        st.builds("({} {} {})".format, below, st.sampled_from("+-*/%"), below),
        st.builds("size({})".format, st.one_of(TEXTS, INT_LISTS, MAPS)),
        st.builds("int({})".format, st.one_of(TEXTS, DOUBLES, UINTS)),
        st.builds("{}[{}]".format, INT_LISTS, st.sampled_from(["0", "1", "5", "x"])),
        st.builds("{}[{}]".format, MAPS, TEXTS),
        st.builds("({} ? {} : {})".format, BOOLS, below, below),
        st.builds("{}.indexOf({})".format, TEXTS, TEXTS),
        st.builds("{}.{}()".format, TIMES, st.sampled_from(["getFullYear", "getMonth", "getDayOfWeek", "getHours"])),
        st.builds("{}.{}()".format, SPANS, st.sampled_from(["getHours", "getMinutes", "getSeconds"])),
    )


def _doubles(depth: int) -> st.SearchStrategy[str]:
    if depth == 0:
        return DOUBLES
    below = _doubles(depth - 1)
    return st.one_of(
        DOUBLES,
        st.builds("({} {} {})".format, below, st.sampled_from("+-*/"), below),
        st.builds("double({})".format, TEXTS),
    )


def _texts(depth: int) -> st.SearchStrategy[str]:
    if depth == 0:
        return TEXTS
    below = _texts(depth - 1)
    return st.one_of(
        TEXTS,
        st.builds("({} + {})".format, below, below),
        st.builds("{}.substring({})".format, below, st.sampled_from(["0", "1", "4"])),
        st.builds("{}.replace({}, {})".format, below, TEXTS, TEXTS),
        st.builds("{}.{}()".format, below, st.sampled_from(["lowerAscii", "upperAscii", "trim"])),
        st.builds("string({})".format, st.one_of(INTS, UINTS, st.sampled_from(["true", "1.5"]))),
        st.builds("{}.join({})".format, TEXT_LISTS, TEXTS),
        st.builds("{}.charAt({})".format, below, st.sampled_from(["0", "2", "9"])),
    )


def _lists(depth: int) -> st.SearchStrategy[str]:
    if depth == 0:
        return INT_LISTS
    below = _lists(depth - 1)
    return st.one_of(
        INT_LISTS,
        st.builds("({} + {})".format, below, below),
        st.builds("{}.map(i, {})".format, below, st.sampled_from(["i * 2", "i + x", "10 / i", "i - 1"])),
        st.builds("{}.filter(i, {})".format, below, st.sampled_from(["i > 1", "i % 2 == 0", "10 / i > 1"])),
    )


def _bools(depth: int) -> st.SearchStrategy[str]:
    if depth == 0:
        return BOOLS
    below = _bools(depth - 1)
    signs = st.sampled_from(["<", "<=", ">", ">=", "==", "!="])
    return st.one_of(
        BOOLS,
        st.builds("({} && {})".format, below, below),
        st.builds("({} || {})".format, below, below),
        st.builds("!{}".format, below),
        st.builds("({} {} {})".format, _ints(1), signs, _ints(1)),
        st.builds("({} {} {})".format, _texts(1), signs, _texts(1)),
        st.builds("({} {} {})".format, _doubles(1), signs, _doubles(1)),
        st.builds("({} {} {})".format, SPANS, signs, SPANS),
        st.builds("({} == {})".format, _lists(1), _lists(1)),
        st.builds("({} in {})".format, INTS, INT_LISTS),
        st.builds("({} in {})".format, TEXTS, MAPS),
        st.builds("{}.{}({})".format, _texts(1), st.sampled_from(["startsWith", "endsWith", "contains"]), TEXTS),
        st.builds("{}.matches({})".format, TEXTS, st.sampled_from(["'^a'", "'[0-9]+'", "'a|b$'", "'.'"])),
        st.builds("{}.{}(i, {})".format, _lists(1), st.sampled_from(["all", "exists", "exists_one"]), _over_i()),
        st.builds("has(m.{})".format, st.sampled_from(["a", "zz"])),
        st.builds("({} ? {} : {})".format, BOOLS, below, below),
    )


def _over_i() -> st.SearchStrategy[str]:
    return st.sampled_from(["i > 1", "i == 2", "10 / i > 3", "i < 100", "i in l", "m.a == i"])
