import pytest
from hypothesis import given
from hypothesis import strategies as st

from levelset.storage.key_index import KeyIndex, directory_of, end_of

texts = st.text(alphabet="/ab-0\U0010ffff", max_size=6)


@given(
    keys=st.lists(texts),
    gone=st.sets(st.integers(0, 20)),
    prefix=texts,
    after=st.none() | texts,
    limit=st.integers(1, 5),
)
def test_an_index_returns_the_same_keys_as_a_scan_of_all_keys(keys, gone, prefix, after, limit):
    index, present = KeyIndex(), set[str]()
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
