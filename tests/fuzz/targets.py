"""The fuzz targets: each takes any bytes, uses a parser or decoder with them, and asserts what must hold.

What holds for all of them: no exception but the documented ones, and no input takes longer than `SECONDS`. Most have
more: two ways that must agree, another library that must agree, or a round trip.
"""

import itertools
import json
import math
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from levelset.apiserver.wire.protobuf import MAGIC, read_protobuf
from levelset.cel import DYN, INT, STRING, Budget, CompileError, CostExceeded, Declarations, EvaluationError
from levelset.cel import compile_rule as compile_cel
from levelset.errors import BadObject, BadSelector, LevelsetError
from levelset.http.limits import Limits
from levelset.http.parser import HeaderCache, RequestParser
from levelset.kinds import Pod
from levelset.objects import FieldSelector, LabelSelector, decode, decode_tree, encode, encode_tree
from levelset.objects.json_tree import same
from levelset.objects.yaml_codec import read_yaml, write_yaml
from levelset.patch import (
    ANYTHING,
    apply_merge,
    apply_operations,
    apply_strategic,
    builtin_shape,
    diff_operations,
    make_merge,
    parse_fields,
    print_fields,
)
from levelset.re2 import BadRegex, Regex
from levelset.re2.step_budget import StepsExceeded, within
from tests.apiserver.support.protobuf_messages import envelope
from tests.fuzz.input_bytes import InputBytes

__all__ = ["MAX_BYTES", "SECONDS", "TARGETS", "Target", "run_target"]

MAX_BYTES = 4096
SECONDS = 2.0
"""The processor time of one input; the instrumentation of the fuzzer makes everything some ten times slower."""

Target = Callable[[bytes], None]


def run_target(target: Target, data: bytes) -> None:
    """Runs a target with an input; raises AssertionError if it takes too long."""
    began = time.thread_time()
    target(data)
    took = time.thread_time() - began
    assert took < SECONDS, f"{len(data)} bytes took {took:.1f} s"


_SMALL = Limits(target_bytes=200, head_bytes=600, header_count=10, body_bytes=500)
# What comes after the input: with it, a head or framing that is too long by now is refused at the latest. Behind
# another request in the same bytes, the parser does not know where it began.
_TAIL = b"a" * (_SMALL.head_bytes + 16 * _SMALL.body_bytes + 1)


def http_parser(data: bytes) -> None:
    """A request is the same however its bytes arrive, and whether its headers were cached before."""
    cut = data[0] if data else 0
    stream = data[1:]
    if b" " * 16 in stream or b"\t" * 16 in stream:
        return  # spaces before a value count towards the limit of the head only if they arrive in parts
    limits = _SMALL
    whole = _requests(RequestParser(limits), [stream])
    parts = [stream[at : at + 1 + cut % 7] for at in range(0, len(stream), 1 + cut % 7)]
    assert _requests(RequestParser(limits), parts) == whole
    cache = HeaderCache(limits)
    for _ in range(2):
        assert _requests(RequestParser(limits, header_cache=cache), [stream]) == whole


def _requests(parser: RequestParser, parts: list[bytes]) -> list[Any]:
    for part in (*parts, _TAIL):
        parser.feed(part)
    found: list[Any] = []
    for parsed in parser.ready:
        request, failure = parsed.request, parsed.failure
        if request is not None:
            headers = sorted((name.lower(), value) for name, value in request.headers)
            found.append((request.method, request.path, request.query, headers, bytes(request.body)))
        elif failure is not None:
            # Of several things that are wrong, the first to arrive is reported: that depends on the parts.
            assert 400 <= failure.status < 600
            found.append("refused")
    return found


def json_decoder(data: bytes) -> None:
    """What is accepted is what Python's `json` reads, and is the same after a round trip."""
    with suppress(BadObject):
        encode(decode(Pod, data))
    try:
        tree = decode_tree(data)
    except BadObject:
        return
    assert same(json.loads(data), tree)
    assert same(decode_tree(encode_tree(tree)), tree)


def yaml_decoder(data: bytes) -> None:
    """Only plain data comes out, the same after a round trip."""
    try:
        documents = read_yaml(data, max_nodes=5_000)
    except BadObject:
        return
    assert all(map(_is_plain, documents))
    if all(map(_is_finite, documents)):
        assert same(read_yaml(write_yaml(documents)), documents)


def _is_plain(tree: Any) -> bool:
    if isinstance(tree, dict):
        return all(type(key) is str and _is_plain(value) for key, value in tree.items())
    return all(map(_is_plain, tree)) if type(tree) is list else type(tree) in (str, int, float, bool, type(None))


def _is_finite(tree: Any) -> bool:
    if isinstance(tree, dict):
        return all(map(_is_finite, tree.values()))
    return all(map(_is_finite, tree)) if isinstance(tree, list) else not isinstance(tree, float) or math.isfinite(tree)


_KINDS = [
    ("v1", "Pod"),
    ("apps/v1", "Deployment"),
    ("v1", "ConfigMap"),
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
    ("v1", "Event"),
    ("meta.k8s.io/v1", "DeleteOptions"),
    ("coordination.k8s.io/v1", "Lease"),
]


def protobuf_decoder(data: bytes) -> None:
    """Whatever is decoded can be written as JSON."""
    choice = data[0] if data else 0
    body = MAGIC + data[1:] if choice >= 250 else envelope(*_KINDS[choice % len(_KINDS)], data[1:])
    try:
        tree = read_protobuf(body)
    except BadObject:
        return
    assert same(decode_tree(encode_tree(tree)), tree)


def selectors(data: bytes) -> None:
    """A selector that is accepted is the same after it was printed, and answers for any labels."""
    text = data.decode("utf-8", "replace")
    labels = {"app": "web", "n": "5", "a.b/c": ""}
    with suppress(BadSelector):
        selector = LabelSelector.parse(text)
        again = LabelSelector.parse(str(selector))
        assert again == selector
        assert again.matches(labels) is selector.matches(labels)
        tree = selector.to_tree()
        if tree is not None:
            assert LabelSelector.from_tree(tree).matches(labels) is selector.matches(labels)
    with suppress(BadSelector):
        fields = FieldSelector.parse(text)
        assert FieldSelector.parse(str(fields)) == fields
        fields.matches({"metadata.name": "web"})


_VARIABLES = Declarations({"self": DYN, "x": INT, "s": STRING})
_VALUES: dict[str, Any] = {
    "self": {"a": [1, 2, -3], "b": {"c": "text", "d": None}, "e": 1.5, "f": "1h", "g": ["b", "a"]},
    "x": 3,
    "s": "some text",
}
_WORDS = (
    "self self.a self.b self.b.c self.?e self.f self.g x s i v 0 1 -1 9223372036854775807 2u 1.5 'a' '' b'c' r'\\d' "
    "true false null [ ] { } ( ) , . .? [? ? : + - * / % ! && || == != < <= > >= in has( size( .all(i, .exists(i, "
    ".map(i, .filter(i, .exists_one(i, .size() .matches( .contains( .startsWith( .split( .join( .replace( .format( "
    ".substring( .lowerAscii() .find( .findAll( .sum() .min() .indexOf( .sort() .isSorted() int( uint( double( string( "
    "bytes( duration( timestamp( type( dyn( quantity( ip( cidr( url( semver( optional.of( optional.none() .orValue( "
    ".hasValue() sets.contains( .optMap(i, .transformList(i, .flatten() .distinct()"
)
_WORD_LIST = _WORDS.split()


def cel_expressions(data: bytes) -> None:
    """An expression has a value or an error of CEL, within its cost, and the same each time."""
    if data[:1] < b"\x80":
        text = data[1:].decode("utf-8", "replace")
    else:
        text = " ".join(_WORD_LIST[byte % len(_WORD_LIST)] for byte in data[1:200])
    try:
        program = compile_cel(text, _VARIABLES, None)
    except CompileError as error:
        assert str(error)
        return
    assert repr(_evaluated(program)) == repr(_evaluated(program))


def _evaluated(program: Any) -> Any:
    budget = Budget(200_000)
    try:
        return program(_VALUES, budget)
    except (EvaluationError, CostExceeded) as error:
        return str(error)


def regular_expressions(data: bytes) -> None:
    """All engines agree, also with Google's RE2 where that is installed."""
    pattern_bytes, _, text_bytes = data.partition(b"\n")
    pattern, text = pattern_bytes.decode("utf-8", "replace"), text_bytes.decode("utf-8", "replace")
    try:
        regex = Regex(pattern)
    except BadRegex:
        return
    try:
        within(5_000_000, lambda: _check_regex(regex, text))
    except StepsExceeded:
        return


def _check_regex(regex: Regex, text: str) -> None:
    found = regex.matches(text)
    assert regex.linear().matches(text) is found
    spans = regex.find_all(text[:300], 20)
    assert bool(spans) is regex.matches(text[:300])
    assert all(span in text for span in spans)
    if len(text) <= regex.limit:
        assert (regex.backtracking().search(text) is not None) is found
    theirs = _google_re2(regex.pattern)
    if theirs is not None:
        assert (theirs.search(text) is not None) is found, "differs from RE2"


def _google_re2(pattern: str) -> Any:
    """The pattern of RE2's library; None if that is not installed, or the two are known to differ."""
    try:
        import re2  # noqa: PLC0415 - only `make fuzz` installs it
    except ImportError:
        return None
    # Other versions of Unicode, and escapes that one of them does not have.
    if any(part in pattern for part in ("\\p", "\\P", "\\C", "(?i", "\\Q", "[[:")) or not pattern.isascii():
        return None
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error:
        return None


_POD = builtin_shape("", "v1", "Pod") or ANYTHING


def patches(data: bytes) -> None:
    """A difference leads from one tree to the other; anything else as a patch is applied or refused."""
    source = InputBytes(data)
    before, after, patch = source.tree(), source.tree(), source.tree()
    assert same(apply_operations(before, diff_operations(before, after)), after)
    with suppress(LevelsetError):
        apply_operations(before, source.operations())
    for is_like in (False, True):
        with suppress(LevelsetError):
            apply_operations(before, patch, like_kubernetes=is_like)
    with suppress(LevelsetError):
        made = make_merge(before, after)
        assert same(apply_merge(before, made), after)
    with suppress(LevelsetError):
        apply_merge(before, patch)
    for one, other in itertools.permutations((before, patch), 2):
        with suppress(LevelsetError):
            apply_strategic(one, other, _POD)
    with suppress(LevelsetError):
        fields = parse_fields(patch)
        assert parse_fields(print_fields(fields)) == fields


TARGETS: dict[str, Target] = {
    "http": http_parser,
    "json": json_decoder,
    "yaml": yaml_decoder,
    "protobuf": protobuf_decoder,
    "selectors": selectors,
    "cel": cel_expressions,
    "re2": regular_expressions,
    "patches": patches,
}
