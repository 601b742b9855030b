"""The plan of a node for a Pod: starts, restarts, stops, and when to reconcile again."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from levelset import replace
from levelset.kinds.core_v1 import Pod, PodStatus
from levelset.objects import replace as with_fields
from levelset_local.node import PodRecord, RestartBackoff, plan
from levelset_local.node.plan import Remove, Start, Step, Stop
from levelset_local.node.pod_record import ContainerRecord, RunningProcess, Termination
from levelset_machine import Identity
from systems.local.tests.node.fake_node import container, pod

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def live(**fields: Any) -> RunningProcess:
    return RunningProcess(identity=Identity(1, 1), started_at=NOW, **fields)


def end(code: int = 0, *, ago: float = 0.0, lasted: float = 1.0) -> Termination:
    finished = NOW - timedelta(seconds=ago)
    return Termination(code=code, reason="x", started_at=finished - timedelta(seconds=lasted), finished_at=finished)


def record(**containers: ContainerRecord | RunningProcess | Termination) -> PodRecord:
    made: list[ContainerRecord] = []
    for name, one in containers.items():
        match one:
            case RunningProcess():
                made.append(ContainerRecord(name=name, live=one))
            case Termination():
                made.append(ContainerRecord(name=name, ended=one))
            case ContainerRecord():
                made.append(replace(one, name=name))
    return PodRecord(uid="u", started_at=NOW, containers=tuple(made))


def named(*steps: Step) -> list[str]:
    verbs = {Start: "start", Stop: "stop"}
    return ["remove" if isinstance(one, Remove) else f"{verbs[type(one)]} {one.container.name}" for one in steps]


def steps(it: Pod, what: PodRecord) -> list[str]:
    return named(*plan(it, what, NOW).steps)


def deleted(grace: int = 30, ago: float = 0.0, **spec: Any) -> Pod:
    ends = (NOW + timedelta(seconds=grace - ago)).strftime("%Y-%m-%dT%H:%M:%SZ")
    return pod("web", metadata={"deletionTimestamp": ends, "deletionGracePeriodSeconds": grace}, **spec)


def test_containers_start_together_and_init_containers_one_after_the_other() -> None:
    assert steps(pod("web", container("a"), container("b")), record()) == ["start a", "start b"]
    it = pod("web", initContainers=[container("one"), container("two")])
    assert steps(it, record()) == ["start one"]
    assert steps(it, record(one=live())) == []
    assert steps(it, record(one=end(0))) == ["start two"]
    assert steps(it, record(one=end(0), two=end(0))) == ["start web"]
    assert steps(it, record(web=end(1))) == ["start web"], "initialization is done once"


def test_a_sidecar_must_have_started_before_the_next_container() -> None:
    it = pod("web", initContainers=[container("side", restartPolicy="Always")])
    assert steps(it, record()) == ["start side"]
    assert steps(it, record(side=live(is_started=False))) == []
    assert steps(it, record(side=live())) == ["start web"]
    assert steps(it, record(side=end(1), web=live())) == ["start side"]


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
def test_the_restart_policy_decides_whether_a_container_is_restarted(
    policy: str, code: int, expected: list[str]
) -> None:
    assert steps(pod("web", restartPolicy=policy), record(web=end(code))) == expected


def test_an_init_container_that_fails_permanently_ends_the_pod_and_its_sidecars() -> None:
    sidecar = container("side", restartPolicy="Always")
    it = pod("web", initContainers=[sidecar, container("one")], restartPolicy="Never")
    assert steps(it, record(side=live(), one=end(1))) == ["stop side"]


def test_a_restart_waits_for_the_back_off() -> None:
    crashed = ContainerRecord(name="web", ended=end(1, ago=4), streak=1)
    found = plan(pod(), record(web=crashed), NOW)
    assert found.steps == ()
    assert found.requeue_at == NOW + timedelta(seconds=6)
    assert steps(pod(), record(web=replace(crashed, ended=end(1, ago=10)))) == ["start web"]
    assert steps(pod(), record(web=replace(crashed, ended=end(1, lasted=601)))) == ["start web"]


@pytest.mark.parametrize(
    ("streak", "delay"), [(0, 0), (1, 10), (2, 20), (3, 40), (4, 80), (5, 160), (6, 300), (7, 300), (5000, 300)]
)
def test_the_back_off_doubles_to_five_minutes(streak: int, delay: int) -> None:
    assert RestartBackoff().delay(ContainerRecord(name="web", ended=end(1), streak=streak)) == delay


def test_a_failing_container_is_stopped_once_with_the_grace_period_of_the_probe() -> None:
    it = pod(terminationGracePeriodSeconds=7)
    [step] = plan(it, record(web=live(failing="failed liveness probe")), NOW).steps
    assert isinstance(step, Stop)
    assert (step.within, step.why) == (7, "failed liveness probe")
    [quick] = plan(it, record(web=live(failing="x", failing_grace=1)), NOW).steps
    assert isinstance(quick, Stop)
    assert quick.within == 1
    assert steps(it, record(web=live(failing="x", stopping=True))) == []


def test_a_container_whose_image_has_changed_is_restarted() -> None:
    assert steps(pod(), record(web=live(image="web:1"))) == []
    assert steps(pod(), record(web=live(image="web:0"))) == ["stop web"]


def test_a_deadline_fails_the_pod() -> None:
    it = pod(activeDeadlineSeconds=10)
    soon = plan(it, record(web=live()), NOW)
    assert (soon.steps, soon.requeue_at) == ((), NOW + timedelta(seconds=10))
    late = plan(it, record(web=live()), NOW + timedelta(seconds=10))
    assert named(*late.steps) == ["stop web"]
    assert late.failure is not None
    assert late.failure.reason == "DeadlineExceeded"


def test_a_deleted_pod_is_stopped_and_then_removed() -> None:
    [step] = plan(deleted(), record(web=live()), NOW).steps
    assert isinstance(step, Stop)
    assert (step.within, step.grace) == (30, 30)
    assert steps(deleted(), record(web=end(0))) == ["remove"]
    assert steps(deleted(), record()) == ["remove"]
    [late] = plan(deleted(ago=20), record(web=live()), NOW).steps
    assert isinstance(late, Stop)
    assert late.within == 11


def test_a_stop_in_progress_can_only_be_shortened() -> None:
    stopping = live(stopping=True, stopping_within=30.0)
    assert steps(deleted(30), record(web=stopping)) == []
    assert steps(deleted(1), record(web=stopping)) == ["stop web"]


def test_sidecars_stop_after_the_others_in_reverse_order() -> None:
    sidecars = [container("one", restartPolicy="Always"), container("two", restartPolicy="Always")]
    it = deleted(initContainers=sidecars)
    assert steps(it, record(one=live(), two=live(), web=live())) == ["stop web"]
    assert steps(it, record(one=live(), two=live(), web=end(0))) == ["stop two"]
    assert steps(it, record(one=live(), two=end(0), web=end(0))) == ["stop one"]


def test_a_terminal_phase_is_final() -> None:
    over = with_fields(pod("web"), status=PodStatus(phase="Failed"))
    assert steps(over, record()) == []
    assert steps(over, record(web=live())) == ["stop web"]
