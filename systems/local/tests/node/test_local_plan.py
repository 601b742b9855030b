"""What a node does next, as a pure function: starts, restarts, ends, and when to look again."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from levelset.kinds.core_v1 import Pod, PodStatus
from levelset.objects import replace as with_fields
from levelset_local.node import PodKnown, Restarts, plan
from levelset_local.node.known import ContainerKnown, End, Live
from levelset_local.node.plan import Remove, Start, Step, Stop
from levelset_machine import Identity
from systems.local.tests.node.playing import container, pod

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def live(**fields: Any) -> Live:
    return Live(identity=Identity(1, 1), started_at=NOW, **fields)


def end(code: int = 0, *, ago: float = 0.0, lasted: float = 1.0) -> End:
    finished = NOW - timedelta(seconds=ago)
    return End(code=code, reason="x", started_at=finished - timedelta(seconds=lasted), finished_at=finished)


def known(**containers: ContainerKnown | Live | End) -> PodKnown:
    made: list[ContainerKnown] = []
    for name, one in containers.items():
        match one:
            case Live():
                made.append(ContainerKnown(name=name, live=one))
            case End():
                made.append(ContainerKnown(name=name, ended=one))
            case ContainerKnown():
                made.append(replace(one, name=name))
    return PodKnown(uid="u", started_at=NOW, containers=tuple(made))


def named(*steps: Step) -> list[str]:
    words = {Start: "start", Stop: "stop"}
    return ["remove" if isinstance(one, Remove) else f"{words[type(one)]} {one.container.name}" for one in steps]


def steps(it: Pod, what: PodKnown) -> list[str]:
    return named(*plan(it, what, NOW).steps)


def deleted(grace: int = 30, ago: float = 0.0, **spec: Any) -> Pod:
    ends = (NOW + timedelta(seconds=grace - ago)).strftime("%Y-%m-%dT%H:%M:%SZ")
    return pod("web", metadata={"deletionTimestamp": ends, "deletionGracePeriodSeconds": grace}, **spec)


def test_all_containers_start_together_and_init_containers_in_turn() -> None:
    assert steps(pod("web", container("a"), container("b")), known()) == ["start a", "start b"]
    it = pod("web", initContainers=[container("one"), container("two")])
    assert steps(it, known()) == ["start one"]
    assert steps(it, known(one=live())) == []
    assert steps(it, known(one=end(0))) == ["start two"]
    assert steps(it, known(one=end(0), two=end(0))) == ["start web"]
    assert steps(it, known(web=end(1))) == ["start web"], "initialization is done once"


def test_a_sidecar_must_be_up_before_the_next_one() -> None:
    it = pod("web", initContainers=[container("side", restartPolicy="Always")])
    assert steps(it, known()) == ["start side"]
    assert steps(it, known(side=live(is_started=False))) == []
    assert steps(it, known(side=live())) == ["start web"]
    assert steps(it, known(side=end(1), web=live())) == ["start side"]


@pytest.mark.parametrize(
    ("policy", "code", "expected"),
    [
        ("Always", 0, ["start web"]),
        ("Always", 1, ["start web"]),
        ("OnFailure", 0, []),
        ("OnFailure", 1, ["start web"]),
        ("Never", 0, []),
        ("Never", 1, []),
    ],
)
def test_the_policy_says_who_runs_again(policy: str, code: int, expected: list[str]) -> None:
    assert steps(pod("web", restartPolicy=policy), known(web=end(code))) == expected


def test_an_init_container_that_fails_for_good_ends_the_pod_with_its_sidecars() -> None:
    sidecar = container("side", restartPolicy="Always")
    it = pod("web", initContainers=[sidecar, container("one")], restartPolicy="Never")
    assert steps(it, known(side=live(), one=end(1))) == ["stop side"]


def test_a_back_off_is_waited_for() -> None:
    crashed = ContainerKnown(name="web", ended=end(1, ago=4), streak=1)
    found = plan(pod(), known(web=crashed), NOW)
    assert found.steps == ()
    assert found.look_at == NOW + timedelta(seconds=6)
    assert steps(pod(), known(web=replace(crashed, ended=end(1, ago=10)))) == ["start web"]
    assert steps(pod(), known(web=replace(crashed, ended=end(1, lasted=601)))) == ["start web"]


@pytest.mark.parametrize(
    ("streak", "delay"), [(0, 0), (1, 10), (2, 20), (3, 40), (4, 80), (5, 160), (6, 300), (7, 300), (5000, 300)]
)
def test_the_back_off_doubles_to_five_minutes(streak: int, delay: int) -> None:
    assert Restarts().delay(ContainerKnown(name="web", ended=end(1), streak=streak)) == delay


def test_what_fails_its_probe_is_stopped_once_with_the_grace_of_the_probe() -> None:
    it = pod(terminationGracePeriodSeconds=7)
    [step] = plan(it, known(web=live(failing="failed liveness probe")), NOW).steps
    assert isinstance(step, Stop)
    assert (step.within, step.why) == (7, "failed liveness probe")
    [quick] = plan(it, known(web=live(failing="x", failing_grace=1)), NOW).steps
    assert isinstance(quick, Stop)
    assert quick.within == 1
    assert steps(it, known(web=live(failing="x", stopping=True))) == []


def test_a_container_whose_image_has_changed_is_ended_and_starts_anew() -> None:
    assert steps(pod(), known(web=live(image="web:1"))) == []
    assert steps(pod(), known(web=live(image="web:0"))) == ["stop web"]


def test_a_deadline_fails_the_pod() -> None:
    it = pod(activeDeadlineSeconds=10)
    soon = plan(it, known(web=live()), NOW)
    assert (soon.steps, soon.look_at) == ((), NOW + timedelta(seconds=10))
    late = plan(it, known(web=live()), NOW + timedelta(seconds=10))
    assert named(*late.steps) == ["stop web"]
    assert late.failure is not None
    assert late.failure.reason == "DeadlineExceeded"


def test_a_deleted_pod_is_ended_and_then_let_go() -> None:
    [step] = plan(deleted(), known(web=live()), NOW).steps
    assert isinstance(step, Stop)
    assert (step.within, step.asked) == (30, 30)
    assert steps(deleted(), known(web=end(0))) == ["remove"]
    assert steps(deleted(), known()) == ["remove"]
    [late] = plan(deleted(ago=20), known(web=live()), NOW).steps
    assert isinstance(late, Stop)
    assert late.within == 11


def test_an_end_that_has_begun_is_only_made_shorter() -> None:
    stopping = live(stopping=True, stopping_within=30.0)
    assert steps(deleted(30), known(web=stopping)) == []
    assert steps(deleted(1), known(web=stopping)) == ["stop web"]


def test_sidecars_end_after_the_others_the_last_one_first() -> None:
    sidecars = [container("one", restartPolicy="Always"), container("two", restartPolicy="Always")]
    it = deleted(initContainers=sidecars)
    assert steps(it, known(one=live(), two=live(), web=live())) == ["stop web"]
    assert steps(it, known(one=live(), two=live(), web=end(0))) == ["stop two"]
    assert steps(it, known(one=live(), two=end(0), web=end(0))) == ["stop one"]


def test_a_pod_that_is_over_stays_so_whatever_else_is_known() -> None:
    over = with_fields(pod("web"), status=PodStatus(phase="Failed"))
    assert steps(over, known()) == []
    assert steps(over, known(web=live())) == ["stop web"]
