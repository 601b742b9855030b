"""The state of a Pod: active, ready, available or finished, and since when."""

from datetime import timedelta

import pytest

from levelset.kinds.core_v1 import Pod
from levelset.testing import START
from levelset_local import pod_state
from systems.local.tests.samples import pod, replica_set

LATER = START + timedelta(seconds=30)


@pytest.mark.parametrize(
    ("one", "active", "finished", "terminating"),
    [
        (pod("a"), True, False, False),
        (pod("a", phase="Pending"), True, False, False),
        (pod("a", phase="Succeeded"), False, True, False),
        (pod("a", phase="Failed"), False, True, False),
        (pod("a", deleted=START), False, False, True),
        (pod("a", phase="Failed", deleted=START), False, True, False),
        (Pod(metadata=pod("a").metadata, spec=pod("a").spec), True, False, False),
    ],
)
def test_a_pod_is_active_finished_or_terminating(one: Pod, active: bool, finished: bool, terminating: bool) -> None:
    assert pod_state.is_active(one) == active
    assert pod_state.is_finished(one) == finished
    assert pod_state.is_terminating(one) == terminating


def test_a_pod_without_a_status_is_not_ready() -> None:
    bare = Pod(metadata=pod("a").metadata, spec=pod("a").spec)
    assert not pod_state.is_ready(bare)
    assert pod_state.restart_count_of(bare) == 0
    assert pod_state.finished_at(bare) == START


def test_a_pod_is_available_after_min_ready_seconds() -> None:
    one = pod("a", ready=START)
    assert pod_state.is_available(one, 0, now=START)
    assert not pod_state.is_available(one, 30, now=LATER - timedelta(seconds=1))
    assert pod_state.is_available(one, 30, now=LATER)
    assert not pod_state.is_available(pod("b"), 0, now=LATER)
    assert pod_state.next_available_at([one, pod("b")], 30, now=START) == LATER
    assert pod_state.next_available_at([one], 30, now=LATER) is None


def test_a_pod_finished_when_its_last_container_did_or_else_at_its_last_change() -> None:
    assert pod_state.finished_at(pod("a", ended=LATER)) == LATER
    assert pod_state.finished_at(pod("a", deleted=LATER)) == LATER
    assert pod_state.finished_at(pod("a", ready=LATER)) == LATER


def test_a_pod_from_a_template_has_a_generated_name() -> None:
    template = replica_set().spec.template
    assert template is not None
    made = pod_state.pod_from_template(template, generate_name="web-", namespace="test")
    assert (made.name, made.metadata.generate_name, made.namespace) == ("", "web-", "test")
    assert made.metadata.labels == {"app": "web"}
    assert made.spec == template.spec
