"""Each Pod that has ended is counted once, whatever is interrupted when; and indexes as people write them."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levelset.kinds.batch_v1 import Job, JobStatus, UncountedTerminatedPods
from levelset.kinds.core_v1 import Pod
from levelset.objects import to_tree
from levelset_local.jobs import FINALIZER, tally
from levelset_local.jobs.counting import is_doubtful
from levelset_local.jobs.indexes import INDEX, format_indexes, missing_indexes, parse_indexes, with_index
from levelset_local.podstates import pod_of_template
from systems.local.tests.samples import job, pod


def owner(status: JobStatus | None = None, **spec: Any) -> Job:
    return job(completions=9, **spec).with_metadata(uid="uid-sum", namespace="test").with_status(status)


def ended(name: str, *, ok: bool = True, held: bool = True, **more: Any) -> Pod:
    finalizers = (FINALIZER,) if held else ()
    return pod(name, phase="Succeeded" if ok else "Failed", finalizers=finalizers, **more)


def written(one: Job, pods: Sequence[Pod]) -> Job:
    """The Job with its counts written."""
    found = tally(one, pods)
    status = JobStatus(
        succeeded=found.succeeded,
        failed=found.failed,
        completed_indexes=found.completed(one),
        uncounted_terminated_pods=found.uncounted(),
    )
    return one.with_status(status)


@given(st.lists(st.booleans(), max_size=8), st.lists(st.integers(0, 40), max_size=60), st.booleans())
def test_everybody_is_counted_once_whatever_is_interrupted(
    outcomes: list[bool], course: list[int], indexed: bool
) -> None:
    mode = "Indexed" if indexed else "NonIndexed"
    there = {str(place): ended(str(place), ok=ok, annotations={INDEX: str(place)}) for place, ok in enumerate(outcomes)}
    one = owner(completionMode=mode)
    for event in course:
        found = tally(one, list(there.values()))
        if event % 3 == 0:
            one = written(one, list(there.values()))
        elif one == written(one, list(there.values())) and found.release:  # only what is written is let go
            going = found.release[event % len(found.release)]
            there[going.name] = going.with_metadata(finalizers=())
        elif event % 3 == 2:
            free = [name for name, it in there.items() if not it.metadata.finalizers]
            if free:
                del there[free[event % len(free)]]
    for _ in range(len(outcomes) + 2):
        one = written(one, list(there.values()))
        for going in tally(one, list(there.values())).release:
            there[going.name] = going.with_metadata(finalizers=())
    assert one.status is not None
    assert (one.status.succeeded, one.status.failed) == (sum(outcomes), len(outcomes) - sum(outcomes))


def test_a_uid_whose_pod_is_not_there_makes_doubt() -> None:
    noted = owner(JobStatus(uncounted_terminated_pods=UncountedTerminatedPods(succeeded=("uid-a",))))
    assert is_doubtful(noted, [])
    assert not is_doubtful(noted, [ended("a")])
    assert not is_doubtful(noted, [ended("a", held=False)])


def test_pods_that_were_counted_without_the_job_knowing_make_doubt() -> None:
    assert is_doubtful(owner(), [ended("a", held=False)])
    assert is_doubtful(owner(), [ended("a", ok=False, held=False)])
    assert not is_doubtful(owner(JobStatus(succeeded=1)), [ended("a", held=False)])
    done = ended("a", held=False, annotations={INDEX: "4"})
    assert is_doubtful(owner(completionMode="Indexed"), [done])
    assert not is_doubtful(owner(JobStatus(completed_indexes="4"), completionMode="Indexed"), [done])


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
def test_indexes_are_read(text: str | None, numbers: set[int]) -> None:
    assert parse_indexes(text) == numbers


@given(st.sets(st.integers(0, 60)))
def test_indexes_are_read_as_they_were_written(numbers: set[int]) -> None:
    assert parse_indexes(format_indexes(numbers)) == numbers


def test_the_lowest_free_indexes_are_next() -> None:
    assert missing_indexes(6, {0, 2}, 3) == (1, 3, 4)
    assert missing_indexes(3, {0, 2}, 3) == (1,)
    assert missing_indexes(3, {0}, 0) == ()


def test_a_pod_is_told_its_index() -> None:
    one = owner()
    draft = pod_of_template(one.spec.template, generate_name="sum-", namespace="test")
    tree = to_tree(with_index(one, draft, 4))
    assert tree["metadata"]["generateName"] == "sum-4-"
    assert tree["metadata"]["annotations"][INDEX] == tree["metadata"]["labels"][INDEX] == "4"
    assert tree["spec"]["hostname"] == "sum-4"
    path = {"fieldRef": {"fieldPath": f"metadata.annotations['{INDEX}']"}}
    assert tree["spec"]["containers"][0]["env"] == [{"name": "JOB_COMPLETION_INDEX", "valueFrom": path}]
    again = with_index(one, with_index(one, draft, 4), 4)
    assert len(again.spec.containers[0].env) == 1
