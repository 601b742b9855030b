"""Finished Pods are counted once, whatever write is interrupted; and completion indexes as text."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levelset.kinds.batch_v1 import Job, JobStatus, UncountedTerminatedPods
from levelset.kinds.core_v1 import Pod
from levelset.objects import to_tree
from levelset_local.jobs import FINALIZER, count_pods
from levelset_local.jobs.completion_indexes import INDEX, format_indexes, missing_indexes, parse_indexes, with_index
from levelset_local.jobs.pod_tracking import may_be_stale
from levelset_local.pod_state import pod_from_template
from systems.local.tests.samples import job, pod


def owner(status: JobStatus | None = None, **spec: Any) -> Job:
    return job(completions=9, **spec).with_metadata(uid="uid-sum", namespace="test").with_status(status)


def ended(name: str, *, ok: bool = True, tracked: bool = True, **more: Any) -> Pod:
    finalizers = (FINALIZER,) if tracked else ()
    return pod(name, phase="Succeeded" if ok else "Failed", finalizers=finalizers, **more)


def written(one: Job, pods: Sequence[Pod]) -> Job:
    """The Job with its counts written."""
    found = count_pods(one, pods)
    status = JobStatus(
        succeeded=found.succeeded,
        failed=found.failed,
        completed_indexes=found.completed(one),
        uncounted_terminated_pods=found.uncounted(),
    )
    return one.with_status(status)


@given(st.lists(st.booleans(), max_size=8), st.lists(st.integers(0, 40), max_size=60), st.booleans())
def test_each_pod_is_counted_once_across_interruptions(outcomes: list[bool], course: list[int], indexed: bool) -> None:
    mode = "Indexed" if indexed else "NonIndexed"
    there = {str(place): ended(str(place), ok=ok, annotations={INDEX: str(place)}) for place, ok in enumerate(outcomes)}
    one = owner(completionMode=mode)
    for event in course:
        found = count_pods(one, list(there.values()))
        if event % 3 == 0:
            one = written(one, list(there.values()))
        elif (
            one == written(one, list(there.values())) and found.release
        ):  # only Pods in the written status are released
            going = found.release[event % len(found.release)]
            there[going.name] = going.with_metadata(finalizers=())
        elif event % 3 == 2:
            free = [name for name, it in there.items() if not it.metadata.finalizers]
            if free:
                del there[free[event % len(free)]]
    for _ in range(len(outcomes) + 2):
        one = written(one, list(there.values()))
        for going in count_pods(one, list(there.values())).release:
            there[going.name] = going.with_metadata(finalizers=())
    assert one.status is not None
    assert (one.status.succeeded, one.status.failed) == (sum(outcomes), len(outcomes) - sum(outcomes))


def test_an_uncounted_uid_without_a_pod_may_be_stale() -> None:
    noted = owner(JobStatus(uncounted_terminated_pods=UncountedTerminatedPods(succeeded=("uid-a",))))
    assert may_be_stale(noted, [])
    assert not may_be_stale(noted, [ended("a")])
    assert not may_be_stale(noted, [ended("a", tracked=False)])


def test_released_pods_that_the_job_has_not_counted_may_be_stale() -> None:
    assert may_be_stale(owner(), [ended("a", tracked=False)])
    assert may_be_stale(owner(), [ended("a", ok=False, tracked=False)])
    assert not may_be_stale(owner(JobStatus(succeeded=1)), [ended("a", tracked=False)])
    done = ended("a", tracked=False, annotations={INDEX: "4"})
    assert may_be_stale(owner(completionMode="Indexed"), [done])
    assert not may_be_stale(owner(JobStatus(completed_indexes="4"), completionMode="Indexed"), [done])


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("", set()),
        (None, set()),
        ("0", {0}),
        ("0,2-4", {0, 2, 3, 4}),
        ("1-2,7,9-10", {1, 2, 7, 9, 10}),
        ("x,3,-,5-y", {3}),
    ],
)
def test_indexes_are_parsed(text: str | None, numbers: set[int]) -> None:
    assert parse_indexes(text) == numbers


@given(st.sets(st.integers(0, 60)))
def test_formatted_indexes_are_parsed_to_the_same(numbers: set[int]) -> None:
    assert parse_indexes(format_indexes(numbers)) == numbers


def test_the_lowest_free_indexes_are_next() -> None:
    assert missing_indexes(6, {0, 2}, 3) == (1, 3, 4)
    assert missing_indexes(3, {0, 2}, 3) == (1,)
    assert missing_indexes(3, {0}, 0) == ()


def test_a_pod_gets_its_completion_index() -> None:
    one = owner()
    draft = pod_from_template(one.spec.template, generate_name="sum-", namespace="test")
    tree = to_tree(with_index(one, draft, 4))
    assert tree["metadata"]["generateName"] == "sum-4-"
    assert tree["metadata"]["annotations"][INDEX] == tree["metadata"]["labels"][INDEX] == "4"
    assert tree["spec"]["hostname"] == "sum-4"
    path = {"fieldRef": {"fieldPath": f"metadata.annotations['{INDEX}']"}}
    assert tree["spec"]["containers"][0]["env"] == [{"name": "JOB_COMPLETION_INDEX", "valueFrom": path}]
    again = with_index(one, with_index(one, draft, 4), 4)
    assert len(again.spec.containers[0].env) == 1
