"""What is asked of a Pod: active, ready, available, ended, and since when."""

from datetime import timedelta

import pytest

from levelset.kinds.core_v1 import Pod
from levelset.testing import START
from levelset_local import podstates
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
    assert podstates.is_active(one) == active
    assert podstates.is_finished(one) == finished
    assert podstates.is_terminating(one) == terminating


def test_a_pod_without_a_status_is_nothing_yet() -> None:
    bare = Pod(metadata=pod("a").metadata, spec=pod("a").spec)
    assert not podstates.is_ready(bare)
    assert podstates.restarts_of(bare) == 0
    assert podstates.finished_at(bare) == START


def test_availability_is_readiness_for_a_while() -> None:
    one = pod("a", ready=START)
    assert podstates.is_available(one, 0, now=START)
    assert not podstates.is_available(one, 30, now=LATER - timedelta(seconds=1))
    assert podstates.is_available(one, 30, now=LATER)
    assert not podstates.is_available(pod("b"), 0, now=LATER)
    assert podstates.next_available([one, pod("b")], 30, now=START) == LATER
    assert podstates.next_available([one], 30, now=LATER) is None


def test_a_pod_ended_when_its_last_container_did_or_else_when_it_last_changed() -> None:
    assert podstates.finished_at(pod("a", ended=LATER)) == LATER
    assert podstates.finished_at(pod("a", deleted=LATER)) == LATER
    assert podstates.finished_at(pod("a", ready=LATER)) == LATER


def test_a_template_becomes_a_pod_without_a_name() -> None:
    template = replica_set().spec.template
    assert template is not None
    made = podstates.pod_of_template(template, generate_name="web-", namespace="test")
    assert (made.name, made.metadata.generate_name, made.namespace) == ("", "web-", "test")
    assert made.metadata.labels == {"app": "web"}
    assert made.spec == template.spec
