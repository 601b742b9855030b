"""Normalization ignores what differs from run to run, and nothing else."""

from typing import Any

from levelset.testing.explore.judging.judge import Mask, differences, learn_mask
from levelset.testing.explore.records.normalize import normalise
from levelset.testing.explore.records.stored_state import Key

UID = "00000000-0000-4000-8000-00000000000{}"


def stored(name: str, *, uid: int = 1, prefix: str = "", **more: Any) -> tuple[Key, dict[str, Any]]:
    metadata = {
        "name": name,
        "namespace": "test",
        "uid": UID.format(uid),
        "resourceVersion": str(uid * 7),
        "creationTimestamp": f"2026-01-01T00:00:0{uid}Z",
        "managedFields": [{"time": f"2026-01-01T00:00:0{uid}Z"}],
    }
    if prefix:
        metadata["generateName"] = prefix
    metadata.update(more.pop("metadata", {}))
    return ("", "ConfigMap", "test", name), {"kind": "ConfigMap", "metadata": metadata, **more}


def uids(*objects: tuple[Key, dict[str, Any]]) -> dict[str, Key]:
    return {tree["metadata"]["uid"]: key for key, tree in objects}


def test_uids_versions_and_times_are_ignored() -> None:
    one, other = stored("a", uid=1, data={"x": "1"}), stored("a", uid=2, data={"x": "1"})
    assert normalise([one], uids(one)) == normalise([other], uids(other))


def test_nested_times_and_versions_are_ignored() -> None:
    def with_time(second: int) -> Any:
        condition = {"lastTransitionTime": f"2026-01-01T00:00:0{second}Z", "message": f"{second and 'x'}"}
        return stored("a", status={"conditions": [condition], "secretResourceVersion": str(second)})

    one, other = with_time(1), with_time(2)
    assert normalise([one], {}) == normalise([other], {})


def test_generated_names_are_ignored_but_their_number_is_not() -> None:
    one = [stored("a-xyz", prefix="a-", uid=1), stored("a-qrs", prefix="a-", uid=2)]
    other = [stored("a-123", prefix="a-", uid=3), stored("a-456", prefix="a-", uid=4)]
    assert normalise(one, {}) == normalise(other, {})
    [found] = differences(normalise(one[:1], {}), normalise(other, {}))
    assert (found.what, found.location, found.actual, found.expected) == ("missing", "ConfigMap/test/a-~", "1", "2")


def test_a_generated_name_in_another_object_is_ignored() -> None:
    def pair(name: str) -> list[Any]:
        return [stored(name, prefix="a-"), stored("b", uid=2, data={"of": name})]

    assert normalise(pair("a-xyz"), {}) == normalise(pair("a-qrs"), {})


def test_an_owner_uid_is_compared_by_whether_the_owner_exists() -> None:
    def child(owner_uid: int) -> Any:
        return stored("child", uid=9, metadata={"ownerReferences": [{"name": "a", "uid": UID.format(owner_uid)}]})

    owner, former = stored("a", uid=1), stored("a", uid=2)
    known = uids(owner, former)
    again = stored("a", uid=3)
    assert normalise([owner, child(1)], known) == normalise([again, child(3)], uids(again))
    assert normalise([owner, child(1)], known) != normalise([owner, child(2)], known)


def test_an_observed_generation_is_compared_by_whether_it_is_current() -> None:
    def at(generation: int, observed: int) -> Any:
        return normalise(
            [stored("a", metadata={"generation": generation}, status={"observedGeneration": observed})], {}
        )

    assert at(1, 1) == at(3, 3)
    assert at(3, 3) != at(3, 2)


def test_only_the_order_of_conditions_owners_and_finalizers_is_ignored() -> None:
    def listed(*names: str, field: str = "conditions") -> Any:
        inside = {field: [{"type": name} for name in names]} if field == "conditions" else {field: list(names)}
        return normalise([stored("a", status=inside)], {})

    assert listed("Ready", "Done") == listed("Done", "Ready")
    assert listed("x", "y", field="finalizers") == listed("y", "x", field="finalizers")
    assert listed("x", "y", field="steps") != listed("y", "x", field="steps")


def test_ignored_fields_are_not_compared() -> None:
    def tried(times: int) -> Any:
        return normalise([stored("a", status={"attempts": times})], {})

    assert differences(tried(1), tried(2), learn_mask(tried(1), tried(1), ["ConfigMap.status.attempts"])) == []
    assert differences(tried(1), tried(2), learn_mask(tried(1), tried(1), ["Secret.status.attempts"])) != []


def test_ignored_kinds_are_not_compared() -> None:
    assert normalise([stored("a")], {}, ignored=["ConfigMap"]) == {}


def test_a_field_that_differs_is_reported_with_both_values() -> None:
    one, other = normalise([stored("a", data={"x": "1"})], {}), normalise([stored("a", data={"x": "2"})], {})
    [found] = differences(one, other)
    assert (found.what, found.words, found.actual, found.expected) == ("field", "data.x", '"1"', '"2"')


def test_an_extra_object_is_reported() -> None:
    [found] = differences(normalise([stored("a"), stored("b")], {}), normalise([stored("a")], {}))
    assert (found.what, found.location) == ("extra", "ConfigMap/test/b")


def test_lists_of_another_length_are_compared_as_a_whole() -> None:
    one, other = normalise([stored("a", items=[1])], {}), normalise([stored("a", items=[1, 2])], {})
    [found] = differences(one, other)
    assert (found.words, found.actual, found.expected) == ("items", "[1]", "[1,2]")


def test_fields_that_differ_between_undisturbed_runs_are_not_compared() -> None:
    def password(text: str, size: int = 1) -> Any:
        return normalise([stored("a", data={"password": text, "size": size})], {})

    mask = learn_mask(password("x"), password("y"))
    assert mask != Mask()
    assert differences(password("z"), password("x"), mask) == []
    assert [one.words for one in differences(password("z", 2), password("x"), mask)] == ["data.size"]


def test_a_number_that_is_named_after_a_generation_is_compared_with_that_of_its_object() -> None:
    def seen(generation: int, number: int) -> Any:
        return stored("a", metadata={"generation": generation}, status={"reconciledGeneration": number})

    assert normalise([seen(2, 2)], {}) == normalise([seen(4, 4)], {})
    assert normalise([seen(2, 2)], {}) != normalise([seen(4, 3)], {})
