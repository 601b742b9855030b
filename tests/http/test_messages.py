import time

from hypothesis import given
from hypothesis import strategies as st

from levelset.http.messages import Headers, Request, parse_query


def test_a_header_is_found_in_any_case():
    headers = Headers({"Content-Type": "application/json"})
    assert headers.get("content-TYPE") == headers.get("content-type") == "application/json"
    assert "CONTENT-TYPE" in headers
    assert headers.get("accept") is None
    assert (headers.find("content-type"), headers.find("accept")) == ("application/json", None)


def test_a_repeated_header_reads_joined_or_one_by_one():
    headers = Headers([("Impersonate-Group", "a"), ("impersonate-group", "b,c"), ("Accept", "x")])
    assert headers.get("impersonate-group") == "a, b,c"
    assert headers.get_all("Impersonate-Group") == ("a", "b,c")
    assert headers.get_all("accept") == ("x",)
    assert headers.get_all("nothing") == ()
    assert list(headers) == [("impersonate-group", "a"), ("impersonate-group", "b,c"), ("accept", "x")]


def test_the_repr_of_headers_hides_their_values():
    assert "secret" not in repr(Headers({"Authorization": "Bearer secret"}))


def test_segments_are_decoded_and_an_encoded_slash_is_not_a_separator():
    assert Request("GET", "/api/v1/a%2Fb/%C3%A9").segments == ("api", "v1", "a/b", "é")
    assert Request("GET", "/").segments == ()
    assert Request("GET", "/api/").segments == ("api",)


def test_parameters_keep_repeated_names_in_order():
    request = Request("GET", "/", "a=1&b=x%3Dy+z&a=2&c&")
    assert request.parameters == {"a": ("1", "2"), "b": ("x=y z",), "c": ("",)}
    assert request.parameter("a") == "1"
    assert request.parameter("c") == ""
    assert request.parameter("d") is None


def test_a_repeated_parameter_costs_no_more_than_distinct_ones():
    start = time.process_time()
    assert len(parse_query("a&" * 50_000)["a"]) == 50_000
    assert time.process_time() - start < 1


def test_parameters_are_parsed_once():
    request = Request("GET", "/", "a=1")
    assert request.parameters is request.parameters


@given(st.text())
def test_no_query_makes_the_parser_fail(query: str):
    for values in parse_query(query).values():
        assert values


@given(st.text())
def test_no_path_makes_the_segments_fail(path: str):
    "/".join(Request("GET", path).segments).encode("utf-8", "surrogatepass")
