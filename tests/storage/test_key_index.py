from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from levelset.storage import key_index
from levelset.storage.key_index import KeyIndex, directory_of, end_of

texts = st.text(alphabet="/ab-0\U0010ffff", max_size=6)


@contextmanager
def buckets_of(size: int) -> Iterator[None]:
    """Buckets, and changes before they are sorted, of a size that a few keys reach."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(key_index, "_BUCKET", size)
        patch.setattr(key_index, "_MOST_MOVED", size + 1)
        yield


@example(size=2, loaded=set[str](), keys=["a", ""], gone=set[int](), prefix="0", after="a", limit=1)
@example(size=1, loaded=set[str](), keys=["0"], gone=set[int](), prefix="", after="", limit=1)
@given(
    size=st.sampled_from([1, 2, 1_000]),
    loaded=st.sets(texts),
    keys=st.lists(texts),
    gone=st.sets(st.integers(0, 20)),
    prefix=texts,
    after=st.none() | texts,
    limit=st.integers(1, 5),
)
def test_an_index_returns_the_same_keys_as_a_scan_of_all_keys(size, loaded, keys, gone, prefix, after, limit):
    with buckets_of(size):
        index, present = KeyIndex(loaded), set(loaded)
        for number, key in enumerate(keys):
            if key not in present:
                index.add(key)
                present.add(key)
            if number % 3 == 0:
                index.take(prefix)
            if number in gone:
                index.discard(key)
                present.discard(key)
        wanted = sorted(key for key in present if key.startswith(prefix) and (after is None or key > after))
        assert index.take(prefix, after=after) == wanted
        assert index.take(prefix, after=after, limit=limit) == wanted[:limit]
        assert index.count(prefix, after=after) == len(wanted)


@given(
    size=st.sampled_from([1, 3, 1_000]),
    changes=st.lists(st.tuples(st.integers(0, 40), st.booleans()), max_size=120),
    after=st.integers(0, 40),
    limit=st.integers(1, 9),
)
def test_a_directory_stays_in_order_through_changes_and_reads(size, changes, after, limit):
    index, present = KeyIndex(), set[str]()
    with buckets_of(size):
        for number in range(0, 41, 2):
            index.add(f"/d/{number:02}")
            present.add(f"/d/{number:02}")
        for number, is_read in changes:
            key = f"/d/{number:02}"
            (index.discard if key in present else index.add)(key)
            present ^= {key}
            if is_read:
                assert index.take("/d/", limit=limit) == sorted(present)[:limit]
        later = sorted(key for key in present if key > f"/d/{after:02}")
        assert index.take("/d/", after=f"/d/{after:02}", limit=limit) == later[:limit]
        assert index.count("/d/", after=f"/d/{after:02}") == len(later)
        one = f"/d/{after // 10}"
        assert index.take(one) == sorted(key for key in present if key.startswith(one))


def test_a_page_reads_only_the_directories_that_it_has_keys_of():
    index = KeyIndex()
    for number in range(1_000):
        index.add(f"/d/{number:04}/a")
    assert index.take("/d/", after="/d/0499/a", limit=2) == ["/d/0500/a", "/d/0501/a"]
    unread = [name for name, directory in index._directories.items() if directory.moved]
    assert len(unread) >= 996


@given(st.sets(texts), st.sets(texts))
def test_keys_added_and_removed_between_two_reads_are_in_order(first, second):
    index = KeyIndex()
    for key in first:
        index.add(f"/d/{key}")
    index.take("/d/")
    extra = [f"/d/{number:03}" for number in range(200) if f"{number:03}" not in first]
    for key in extra:
        index.add(key)
    for key in first & second:
        index.discard(f"/d/{key}")
    assert index.take("/d/") == sorted({*extra, *(f"/d/{key}" for key in first - second)})


@given(texts, texts)
def test_the_end_of_a_prefix_is_greater_than_every_key_with_that_prefix(prefix, rest):
    end = end_of(prefix)
    assert end is None or prefix + rest < end


@given(texts, texts)
def test_only_keys_with_the_prefix_lie_between_the_prefix_and_its_end(prefix, other):
    end = end_of(prefix)
    inside = prefix <= other and (end is None or other < end)
    assert inside == other.startswith(prefix)


@pytest.mark.parametrize(("key", "directory"), [("/a/b", "/a/"), ("/a/", "/a/"), ("a", ""), ("", ""), ("/", "/")])
def test_a_directory_ends_with_the_last_slash(key, directory):
    assert directory_of(key) == directory


def test_an_empty_directory_is_dropped():
    index = KeyIndex()
    index.add("/a/b")
    index.discard("/a/b")
    assert not index._directories
    assert not index._names
