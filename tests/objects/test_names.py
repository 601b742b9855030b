"""The names that Kubernetes accepts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levelset.objects.names import (
    check_dns1123_label,
    check_dns1123_subdomain,
    check_label_key,
    check_label_value,
    is_dns1123_label,
    is_dns1123_subdomain,
    is_label_key,
    is_label_value,
    is_qualified_name,
    quote,
)


@pytest.mark.parametrize("text", ["a", "0", "a-b", "a--b", "123-abc", "a" * 63])
def test_a_dns_label_is_lower_case_letters_digits_and_inner_dashes(text):
    assert is_dns1123_label(text)
    assert check_dns1123_label(text) == []


@pytest.mark.parametrize("text", ["", "-", "-a", "a-", "A", "a.b", "a_b", "a b", "ä", "a\n", "a" * 64, "\u0661"])
def test_other_texts_are_not_dns_labels(text):
    assert not is_dns1123_label(text)
    assert check_dns1123_label(text)


@pytest.mark.parametrize("text", ["a", "a.b", "0.1.2.domain", "a-b.c-d", ("a" * 63 + ".") * 3 + "a" * 61, "a" * 253])
def test_a_dns_subdomain_is_labels_joined_by_dots(text):
    assert is_dns1123_subdomain(text)
    assert check_dns1123_subdomain(text) == []


@pytest.mark.parametrize("text", ["", ".", "a.", ".a", "a..b", "a.-b", "A.b", "a_b.c", "a.b\n", "a" * 254, "%", "a/b"])
def test_other_texts_are_not_dns_subdomains(text):
    assert not is_dns1123_subdomain(text)
    assert check_dns1123_subdomain(text)


@pytest.mark.parametrize(
    "text",
    ["simple", "now-with-dashes", "1-starts-with-num", "1234", "UPPER_and.lower", "a/b", "example.com/My_Name.v1",
     "0.1.2.domain/99", "a" * 63, "a" * 253 + "/" + "b" * 63],
)  # fmt: skip
def test_a_label_key_is_a_name_with_an_optional_prefix(text):
    assert is_label_key(text)
    assert is_qualified_name(text)
    assert check_label_key(text) == []


@pytest.mark.parametrize(
    "text",
    ["", "/", "a/", "/a", "a/b/c", "-a", "a-", "_a", "a.", "A.com/a", "exa_mple.com/a", "a b", "a\n", "a" * 64,
     "a" * 254 + "/b", "nospecialchars^=@", "b/" + "a" * 64],
)  # fmt: skip
def test_other_texts_are_not_label_keys(text):
    assert not is_label_key(text)
    assert not is_qualified_name(text)
    assert check_label_key(text)


@pytest.mark.parametrize("text", ["", "a", "A", "1", "a_b.c-D", "1.2.3.4", "a" * 63])
def test_a_label_value_is_empty_or_a_word(text):
    assert is_label_value(text)
    assert check_label_value(text) == []


@pytest.mark.parametrize("text", ["-", "-a", "a-", ".a", "a_", "a b", "a/b", "a=b", "a\n", "é", "a" * 64])
def test_other_texts_are_not_label_values(text):
    assert not is_label_value(text)
    assert check_label_value(text)


def test_the_problems_name_the_violated_rule():
    assert check_dns1123_label("a.b") == ["must not contain dots"]
    assert check_dns1123_label("a" * 70) == ["must be no more than 63 characters"]
    assert check_label_key("/a") == ["prefix part must be non-empty"]
    assert check_label_key("a/")[0] == "name part must be non-empty"
    assert len(check_label_key("A/-" + "b" * 63)) == 3


@given(st.text())
def test_the_answer_and_the_problems_agree_for_any_text(text):
    assert is_dns1123_label(text) == (not check_dns1123_label(text))
    assert is_dns1123_subdomain(text) == (not check_dns1123_subdomain(text))
    assert is_label_value(text) == (not check_label_value(text))
    assert is_label_key(text) == (not check_label_key(text))


@pytest.mark.parametrize("text", ["a" * 100_000, "a-" * 50_000, "a." * 50_000 + "!", "-" * 100_000])
def test_a_very_long_text_is_rejected_in_linear_time(text):
    assert not is_label_value(text)
    assert check_label_key(text)
    assert check_dns1123_subdomain(text)


def test_a_quoted_text_is_short_and_printable():
    assert quote("a") == "'a'"
    assert len(quote("a" * 1000)) < 100
    assert quote("\ud800\x00").isprintable()
    assert quote(None) == "nothing"
    assert quote(3) == "a value of type int"
