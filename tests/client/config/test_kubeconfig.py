import codecs
import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levelset.client.config.kubeconfig import Kubeconfig, merge_kubeconfigs, parse_kubeconfig, read_kubeconfig
from levelset.errors import ConfigError
from tests.client.config.kubeconfig_files import kubeconfig, write

FILE = Path("/folder/me/config")


def parse(tree: Any) -> Kubeconfig:
    return parse_kubeconfig((tree if isinstance(tree, str) else json.dumps(tree)).encode(), FILE)


def named(name: str, kind: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, kind: fields}


def test_the_first_file_that_defines_an_entry_wins() -> None:
    first = parse({"clusters": [named("a", "cluster", server="https://one")], "current-context": "x"})
    second = parse(
        {
            "clusters": [
                named("a", "cluster", **{"server": "https://two", "tls-server-name": "n"}),
                named("b", "cluster", server="https://b"),
            ],
            "current-context": "y",
        }
    )
    merged = merge_kubeconfigs([first, second])
    assert dict(merged.clusters["a"].tree) == {"server": "https://one"}
    assert merged.clusters["b"].text("server") == "https://b"
    assert merged.current == "x"


def test_a_later_file_adds_what_the_first_does_not_define() -> None:
    merged = merge_kubeconfigs([parse({"current-context": ""}), parse({"current-context": "y"})])
    assert merged.current == "y"


def test_sections_may_be_split_over_files() -> None:
    whole = kubeconfig()
    parts = [parse({name: whole[name]}) for name in ("clusters", "users", "contexts", "current-context")]
    merged = merge_kubeconfigs(parts)
    context = merged.context()
    assert merged.cluster(context).name == "box"
    user = merged.user(context)
    assert user is not None
    assert user.name == "me"


def test_several_documents_in_a_file_are_merged() -> None:
    found = parse(f"---\n{json.dumps({'current-context': 'a'})}\n---\n\n---\n{json.dumps(kubeconfig())}\n")
    assert found.current == "a"
    assert set(found.contexts) == {"dev"}


@pytest.mark.parametrize("bom", [codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, b""])
def test_byte_order_marks_and_utf_16_are_read(bom: bytes) -> None:
    encoding = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}.get(bom, "utf-8")
    text = bom + json.dumps(kubeconfig(namespace="straße"), ensure_ascii=False).encode(encoding)
    assert parse_kubeconfig(text, FILE).contexts["dev"].text("namespace") == "straße"


def test_unknown_keys_are_ignored() -> None:
    tree = kubeconfig(user={"token": "t", "from-the-future": {"a": 1}}) | {"preferences": {}, "news": 1}
    assert parse(tree).users["me"].tree["from-the-future"] == {"a": 1}


def test_an_empty_file_is_an_empty_kubeconfig() -> None:
    assert parse("# nothing\n").contexts == {}


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ("[1, 2]", "is not a kubeconfig: it is a list"),
        ("hello", "is not a kubeconfig: it is a string"),
        ({"kind": "Pod", "apiVersion": "v1"}, "its kind is 'Pod' and must be Config"),
        ({"apiVersion": "v2"}, "its apiVersion is 'v2' and must be v1"),
        ({"current-context": 7}, "current-context in /folder/me/config must be a string, not a number"),
        ({"clusters": {}}, "clusters in /folder/me/config must be a list, not a mapping"),
        ({"users": [{"user": {}}]}, r"users\[0\] in /folder/me/config has no name"),
        ({"users": ["me"]}, r"users\[0\] in /folder/me/config has no name"),
        ({"users": [{"name": "a", "user": "me"}]}, r"user of users\[0\] \('a'\) .* must be a mapping"),
        ({"users": [{"name": "a"}, {"name": "a"}]}, "has two entries 'a' in users"),
    ],
)
def test_a_file_that_is_not_a_kubeconfig_is_refused_with_the_reason(tree: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse(tree)


@pytest.mark.parametrize("broken", ["a: [", "a: b: c", "\ta: 1", "password: *s3cret", "a: !s3cret x", "a: 1\na: 2"])
def test_invalid_yaml_is_refused_with_file_and_line_and_without_its_content(broken: str) -> None:
    with pytest.raises(ConfigError, match="/folder/me/config is not valid YAML from line 1|line 2") as refusal:
        parse(broken)
    assert "s3cret" not in str(refusal.value)
    assert refusal.value.__cause__ is None


def test_bytes_that_are_not_text_are_refused() -> None:
    with pytest.raises(ConfigError, match="is not text"):
        parse_kubeconfig(b"\xff\x00\x80", FILE)


@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_arbitrary_files_raise_only_config_errors(content: bytes) -> None:
    with contextlib.suppress(ConfigError):
        parse_kubeconfig(content, FILE)


def test_an_unreadable_file_is_a_config_error_and_a_missing_one_file_not_found(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"{tmp_path} cannot be read: Is a directory"):
        read_kubeconfig(tmp_path)
    with pytest.raises(FileNotFoundError):
        read_kubeconfig(tmp_path / "missing")


def test_an_undefined_context_is_refused_with_the_defined_ones() -> None:
    found = parse(kubeconfig())
    with pytest.raises(ConfigError, match="/folder/me/config has no context 'prod'. Choose one of 'dev'."):
        found.context("prod")
    with pytest.raises(ConfigError, match="has no current-context: choose a context, one of 'dev'"):
        parse({**kubeconfig(), "current-context": None}).context()
    with pytest.raises(ConfigError, match=r"\(none\)"):
        parse({}).context()


def test_an_undefined_cluster_or_user_is_refused_with_the_defined_ones() -> None:
    found = parse(kubeconfig(cluster={}) | {"contexts": [named("dev", "context", cluster="x", user="y")]})
    context = found.context()
    with pytest.raises(ConfigError, match="context 'dev' in .* names a cluster that .* 'x'. Defined: 'box'"):
        found.cluster(context)
    with pytest.raises(ConfigError, match="context 'dev' in /folder/me/config names a user that .* 'y'. Defined: 'me'"):
        found.user(context)


def test_a_context_without_a_cluster_is_wrong_and_one_without_a_user_is_anonymous() -> None:
    found = parse({"contexts": [named("dev", "context")], "current-context": "dev"})
    with pytest.raises(ConfigError, match="cluster of context 'dev' in /folder/me/config is missing"):
        found.cluster(found.context())
    assert found.user(found.context()) is None


def test_no_repr_of_a_kubeconfig_shows_a_secret(tmp_path: Path) -> None:
    found = read_kubeconfig(write(tmp_path, kubeconfig(user={"token": "s3cret", "password": "s3cret"})))
    assert "s3cret" not in repr(found)
    assert "s3cret" not in repr(found.users["me"])
