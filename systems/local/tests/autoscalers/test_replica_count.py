"""How many Pods an autoscaler recommends, and how quickly it gets there."""

from datetime import timedelta
from typing import Any

import pytest

from levelset import Quantity, replace
from levelset.kinds.autoscaling_v2 import HorizontalPodAutoscalerSpec, MetricTarget
from levelset.kinds.core_v1 import Container, Pod, ResourceRequirements
from levelset.objects import from_tree
from levelset.testing import START
from levelset_local.autoscalers.replica_count import History, MetricFailure, decide, recommend, with_change
from systems.local.tests import samples

HALF = MetricTarget(type="Utilization", average_utilization=50)


def pod(name: str, *, request: str | None = "100m", **state: Any) -> Pod:
    given: dict[str, Any] = {"ready": START, **state}
    resources = ResourceRequirements(requests={"cpu": Quantity(request)} if request else {})
    made = samples.pod(name, **given)
    return replace(made, spec=replace(made.spec, containers=(Container(name="main", resources=resources),)))


def replicas(target: MetricTarget, pods: list[Pod], **used: float) -> int:
    usage = {f"uid-{name}": cores for name, cores in used.items()}
    return recommend(target, pods, usage, current=len(pods), rules=None).replicas


def test_the_number_follows_the_use_compared_with_the_target() -> None:
    pods = [pod("a"), pod("b")]
    assert replicas(HALF, pods, a=0.1, b=0.1) == 4  # all of what they request, where half is the target
    assert replicas(HALF, pods, a=0.02, b=0.02) == 1
    assert replicas(MetricTarget(type="AverageValue", average_value=Quantity("200m")), pods, a=0.5, b=0.4) == 5


def test_a_small_difference_changes_nothing() -> None:
    pods = [pod("a"), pod("b")]
    assert replicas(HALF, pods, a=0.055, b=0.054) == 2
    assert replicas(HALF, pods, a=0.056, b=0.056) == 3


def test_pods_without_a_measurement_never_turn_the_direction() -> None:
    pods = [pod("a"), pod("b"), pod("c")]
    assert replicas(HALF, pods, a=0.2, b=0.2) == 8  # the third one is taken to use nothing
    assert replicas(HALF, pods, a=0.01, b=0.01) == 3  # and here all that it requests
    starting = [pod("a"), pod("b", ready=None)]
    assert replicas(HALF, starting, a=0.2, b=9.0) == 4  # one that is not ready counts as using nothing
    most_start = [pod("a"), *(pod(name, ready=None) for name in "bcd")]
    assert replicas(HALF, most_start, a=0.15) == 4  # three times the target for one Pod, and below it for all four
    assert replicas(HALF, [pod("a"), pod("gone", phase="Failed")], a=0.1, gone=9.0) == 2


def test_what_cannot_be_computed_is_said() -> None:
    with pytest.raises(MetricFailure, match="did not receive metrics"):
        replicas(HALF, [pod("a")])
    with pytest.raises(MetricFailure, match="missing request for cpu in container main of Pod a"):
        replicas(HALF, [pod("a", request=None)], a=1.0)
    found = recommend(HALF, [pod("a")], {"uid-a": 0.03}, current=1, rules=None)
    assert (found.average, found.utilization) == (0.03, 30)


def spec(**fields: Any) -> HorizontalPodAutoscalerSpec:
    reference = {"kind": "Deployment", "name": "web"}
    return from_tree(HorizontalPodAutoscalerSpec, {"maxReplicas": 100, "scaleTargetRef": reference, **fields})


def run(one: HorizontalPodAutoscalerSpec, wanted: list[int], *, current: int, seconds: float = 15.0) -> list[int]:
    """The numbers that are set, for recommendations that come every so many seconds."""
    history, found, now = History(), list[int](), START
    for count in wanted:
        decision = decide(one, count, current=current, history=history, now=now)
        history = with_change(decision.history, decision.replicas - current, now=now)
        current = decision.replicas
        found.append(current)
        now += timedelta(seconds=seconds)
    return found


def test_by_default_it_doubles_every_15_seconds() -> None:
    assert run(spec(), [40] * 5, current=1) == [5, 10, 20, 40, 40]
    assert run(spec(), [40] * 3, current=1, seconds=5) == [5, 5, 5]


def test_by_default_it_shrinks_after_the_highest_recommendation_of_five_minutes() -> None:
    found = run(spec(), [10] + [2] * 25, current=10)
    assert found[:20] == [10] * 20
    assert found[20:22] == [2, 2]


def test_the_limits_of_the_number() -> None:
    assert run(spec(maxReplicas=3), [40, 40], current=1) == [3, 3]
    assert run(spec(minReplicas=2), [1] * 30, current=4)[-1] == 2
    decision = decide(spec(maxReplicas=3), 40, current=2, history=History(), now=START)
    assert decision.limit == "TooManyReplicas"


def test_policies_of_the_behavior() -> None:
    slow = {"scaleUp": {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 60}]}}
    assert run(spec(behavior=slow), [9] * 6, current=1) == [2, 2, 2, 2, 3, 3]
    least = {
        "scaleDown": {
            "stabilizationWindowSeconds": 0,
            "selectPolicy": "Min",
            "policies": [
                {"type": "Percent", "value": 50, "periodSeconds": 15},
                {"type": "Pods", "value": 3, "periodSeconds": 15},
            ],
        }
    }
    assert run(spec(behavior=least), [1] * 4, current=20) == [17, 14, 11, 8]
    never = {"scaleDown": {"selectPolicy": "Disabled", "stabilizationWindowSeconds": 0}}
    assert run(spec(behavior=never), [1], current=20) == [20]


def test_a_window_to_scale_up_takes_the_lowest_recommendation() -> None:
    calm = {"scaleUp": {"stabilizationWindowSeconds": 60}}
    assert run(spec(behavior=calm), [1, 4, 4, 4, 4], current=1) == [1, 1, 1, 1, 4]
