"""The parts of the storage in etcd that need no etcd: what failures mean, where keys are, how differences are found."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from hypothesis import given
from hypothesis import strategies as st

from levelset.errors import ConfigError
from levelset.http import CertificateAuthority
from levelset.storage import Change, EtcdStorage, Item, StorageUnavailable, UnknownOutcome
from levelset.storage.etcd_client import Endpoint, parse_endpoints
from levelset.storage.etcd_failures import Verdict, judge
from levelset.storage.etcd_messages import KeySpace, StoredKey
from levelset.storage.etcd_mirror import differences, has_safe_progress


@pytest.mark.parametrize(
    ("code", "reason", "verdict"),
    [
        ("UNAVAILABLE", "etcdserver: request timed out", Verdict.UNKNOWN),
        ("UNAVAILABLE", "etcdserver: leader changed", Verdict.UNKNOWN),
        ("UNAVAILABLE", "Socket closed", Verdict.UNKNOWN),
        ("UNAVAILABLE", "a text of the future", Verdict.UNKNOWN),
        ("DEADLINE_EXCEEDED", "Deadline Exceeded", Verdict.UNKNOWN),
        ("CANCELLED", "", Verdict.UNKNOWN),
        ("UNAVAILABLE", "etcdserver: no leader", Verdict.UNSENT),
        ("RESOURCE_EXHAUSTED", "etcdserver: too many requests", Verdict.UNSENT),
        ("RESOURCE_EXHAUSTED", "etcdserver: mvcc: database space exceeded", Verdict.NO_SPACE),
        ("INVALID_ARGUMENT", "etcdserver: request is too large", Verdict.TOO_LARGE),
        ("UNAUTHENTICATED", "etcdserver: invalid auth token", Verdict.LOGIN),
        ("PERMISSION_DENIED", "etcdserver: permission denied", Verdict.REFUSED),
        ("OUT_OF_RANGE", "etcdserver: mvcc: required revision has been compacted", Verdict.COMPACTED),
        ("OUT_OF_RANGE", "etcdserver: mvcc: required revision is a future revision", Verdict.FUTURE),
    ],
)
def test_a_failure_counts_as_unsent_only_if_the_write_certainly_has_not_happened(code, reason, verdict):
    assert judge(code, reason) is verdict


@pytest.mark.parametrize(
    ("version", "is_safe"),
    [
        ((3, 4, 30), False),
        ((3, 4, 31), True),
        ((3, 5, 1), False),
        ((3, 5, 12), False),
        ((3, 5, 13), True),
        ((3, 6, 0), True),
        ((4, 0, 0), True),
        ((), False),
    ],
)
def test_progress_reports_are_believed_from_the_versions_on_that_send_them_in_order(version, is_safe):
    assert has_safe_progress(version) is is_safe


def test_the_keys_of_a_storage_are_below_its_prefix_and_those_of_levelset_just_before():
    keys = KeySpace("/team/a/")
    assert keys.encode("/registry/core/pods/default/x") == b"/team/a/registry/core/pods/default/x"
    assert keys.compaction == b"/team/a.compaction"
    assert keys.watch_start < keys.compaction < keys.tick < keys.data < keys.encode("/\U0010ffff") < keys.data_end
    assert keys.item(StoredKey(b"/team/a/x", b"1", 5, 3, 2)) == Item("/x", b"1", 5, 3, 2)


@pytest.mark.parametrize("key", [b"/team/a.compaction", b"/team/ab/x", b"/team/a", b"/team/a/\xff"])
def test_keys_of_others_are_not_items(key):
    assert KeySpace("/team/a").item(StoredKey(key, b"", 1, 1, 1)) is None


def test_a_prefix_without_a_slash_is_refused():
    with pytest.raises(ConfigError, match="must begin with a slash"):
        KeySpace("levelset")


def test_endpoints_are_urls_with_commas_or_a_list():
    found = (
        Endpoint("a", 2379, is_secure=True),
        Endpoint("127.0.0.1", 1, is_secure=False),
        Endpoint("::1", 2379, is_secure=True),
    )
    assert parse_endpoints("https://a:2379, http://127.0.0.1:1,https://[::1]") == found
    assert parse_endpoints(["https://a", "http://127.0.0.1:1/", "https://[::1]:2379"]) == found
    assert parse_endpoints("a:1") == (Endpoint("a", 1, is_secure=False),)
    assert [one.address for one in found] == ["a:2379", "127.0.0.1:1", "[::1]:2379"]


@pytest.mark.parametrize("text", ["", ",", "ftp://a", "https://a:b", "https://a:2379/v3", "https://", "https://u:p@a"])
def test_what_is_not_a_url_of_etcd_is_refused(text):
    with pytest.raises(ConfigError, match="https://"):
        parse_endpoints(text)


def test_errors_say_whether_the_write_may_have_happened():
    assert (UnknownOutcome("/a", "cut").code, StorageUnavailable("no").code) == (504, 503)


async def test_a_storage_that_was_not_started_accepts_no_writes():
    storage = EtcdStorage("http://127.0.0.1:2379")
    assert "not started" in (storage.find_write_problem() or "")
    with pytest.raises(StorageUnavailable, match="not started: use it in an `async with`"):
        await storage.put("/a", b"", expected=0)
    await storage.close()


def item(key: str, revision: int, created: int) -> Item:
    return Item(key, b"%d" % revision, revision, created, 1)


def test_differences_are_in_the_order_of_revisions_and_a_recreated_key_is_deleted_first():
    old = {one.key: one for one in (item("/a", 1, 1), item("/b", 2, 2), item("/c", 3, 3), item("/d", 4, 4))}
    new = [item("/a", 9, 1), item("/c", 8, 7), item("/d", 4, 4), item("/e", 6, 6)]
    assert differences(old, new, 10) == [
        Change(6, "/c", old["/c"], None),
        Change(6, "/e", None, new[3]),
        Change(8, "/c", None, new[1]),
        Change(9, "/a", old["/a"], new[0]),
        Change(10, "/b", old["/b"], None),
    ]


keys = st.sampled_from("abcd")


@given(writes=st.lists(st.tuples(keys, st.booleans()), max_size=20), seen=st.integers(0, 20))
def test_applying_the_differences_gives_the_new_state(writes, seen):
    states: list[dict[str, Item]] = [{}]
    for revision, (key, is_put) in enumerate(writes, 1):
        state = dict(states[-1])
        before = state.pop(key, None)
        if is_put:
            state[key] = item(key, revision, revision if before is None else before.created)
        states.append(state)
    old, new, head = dict(states[min(seen, len(writes))]), states[-1], min(seen, len(writes))
    last = head
    for change in differences(old, sorted(new.values(), key=lambda one: one.key), len(writes)):
        assert last <= change.revision <= len(writes)
        assert change.revision > head
        last = change.revision
        assert old.pop(change.key, None) == change.before
        if change.after is not None:
            old[change.key] = change.after
    assert old == new


async def test_closing_a_storage_that_was_not_started_is_allowed():
    storage = EtcdStorage("http://127.0.0.1:2379")
    async with asyncio.timeout(120):
        await storage.close()
        await storage.close()


@pytest.mark.parametrize("missing", ["cacert", "cert"])
def test_a_certificate_that_cannot_be_used_is_named_at_the_start(tmp_path: Path, missing: str):
    authority = CertificateAuthority.create("etcd")
    files: dict[str, Any] = {name: tmp_path / f"{name}.pem" for name in ("cacert", "cert", "key")}
    for path in files.values():
        path.write_bytes(authority.certificate)
    files[missing].write_text("nothing")
    storage = EtcdStorage("https://127.0.0.1:1", **files)
    with pytest.raises(ConfigError, match=rf"The file .*{missing}\.pem.* for etcd cannot be used"):
        asyncio.run(storage.start())


def test_an_encrypted_key_is_refused_instead_of_asked_for(tmp_path: Path):
    for name, content in zip(("cert", "key"), encrypted_identity(), strict=True):
        (tmp_path / name).write_bytes(content)
    storage = EtcdStorage("https://127.0.0.1:1", cert=tmp_path / "cert", key=tmp_path / "key")
    with pytest.raises(ConfigError, match="The key for etcd is encrypted"):
        asyncio.run(storage.start())


def encrypted_identity() -> tuple[bytes, bytes]:
    identity = CertificateAuthority.create("etcd").issue_client("levelset")
    key = serialization.load_pem_private_key(identity.key, None)
    encryption = serialization.BestAvailableEncryption(b"secret")
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
    return identity.certificate, pem
