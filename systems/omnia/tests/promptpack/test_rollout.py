"""The rollout of a version as a pure function."""

from datetime import UTC, datetime, timedelta

from levelset import replace
from levelset.objects import MicroTime
from levelset_omnia import AgentRuntime, AgentRuntimeStatus, PromptPack, PromptPackStatus
from levelset_omnia.kinds import CanaryReplicas, Revision, Rollback, RolledBack
from levelset_omnia.promptpack import Progress, advance, has_reached
from systems.omnia.tests.support import agent, canary, pack

__all__: list[str] = []

NOW = datetime(2026, 1, 1, tzinfo=UTC)
OLD = Revision(version="1.0.0", config_map="prompts", hash="a")
NEW = Revision(version="2.0.0", config_map="prompts-2", hash="b")


def at(weight: int, *, ago: float = 0.0, started: bool = True) -> PromptPack:
    """A pack in a canary whose present weight began `ago` seconds ago."""
    status = PromptPackStatus(
        active=OLD,
        canary=NEW,
        canary_weight=weight,
        step_started_at=MicroTime.of(NOW - timedelta(seconds=ago)) if started else None,
    )
    return replace(pack(version="2.0.0", rollout=canary(10, 30, "1m")), status=status)


def step(one: PromptPack, *agents: AgentRuntime, offered: Revision = NEW) -> Progress:
    active = one.status.active if one.status else None
    return advance(one, offered, agents, active=active, now=NOW)


def running(**status: object) -> AgentRuntime:
    return replace(agent(), status=AgentRuntimeStatus(phase="Running", **status))  # type: ignore[arg-type]


def test_an_immediate_rollout_is_active_at_once() -> None:
    assert step(pack(), offered=NEW) == Progress(active=NEW)


def test_a_canary_begins_with_its_weight_now() -> None:
    pack_before = replace(pack(rollout=canary(10, 30, "1m")), status=PromptPackStatus(active=OLD))
    assert step(pack_before) == Progress(active=OLD, canary=NEW, weight=10, started=NOW, after=60)


def test_before_the_interval_has_passed_only_the_requeue_time_changes() -> None:
    found = step(at(40, ago=20))
    assert (found.weight, found.started, found.after) == (40, NOW - timedelta(seconds=20), 40)


def test_after_the_interval_the_weight_grows_by_one_step_even_if_late() -> None:
    found = step(at(10, ago=3600))
    assert (found.weight, found.started, found.after) == (40, NOW, 60)


def judged(one: PromptPack, *, max_error_rate: int = 10, min_requests: int = 20) -> PromptPack:
    """The pack with a limit of errors."""
    strategy = one.spec.rollout.canary
    assert strategy is not None
    limit = Rollback(max_error_rate=max_error_rate, min_requests=min_requests)
    return one.with_spec(rollout=replace(one.spec.rollout, canary=replace(strategy, rollback=limit)))


def counted(requests: int, errors: int, version: str = "2.0.0") -> AgentRuntime:
    carried = CanaryReplicas(version=version, weight=10, replicas=1, ready=1, requests=requests, errors=errors)
    return running(canary=carried)


def test_a_canary_whose_requests_fail_too_often_is_rolled_back() -> None:
    found = step(judged(at(40)), counted(15, 1), counted(15, 3))
    assert found == Progress(active=OLD, rolled_back=RolledBack(revision=NEW, requests=30, errors=4))


def test_a_canary_is_not_rolled_back_by_few_requests_or_an_allowed_share_of_errors() -> None:
    assert step(judged(at(40)), counted(19, 19)).canary == NEW
    assert step(judged(at(40)), counted(30, 3)).canary == NEW
    assert step(judged(at(40)), counted(90, 90, version="1.9.0")).canary == NEW
    assert step(at(40), counted(90, 90)).canary == NEW  # without a limit


def test_a_revision_that_was_rolled_back_is_tried_again_when_it_changes() -> None:
    failed = RolledBack(revision=NEW, requests=30, errors=4)
    before = replace(judged(at(40)), status=PromptPackStatus(active=OLD, rolled_back=failed))
    assert step(before) == Progress(active=OLD, rolled_back=failed)
    corrected = replace(NEW, hash="c")
    assert step(before, offered=corrected).canary == corrected


def test_the_last_step_is_100_and_then_the_version_is_promoted() -> None:
    found = step(at(90, ago=60))
    assert (found.weight, found.after) == (100, 0)
    assert step(at(100)) == Progress(active=NEW)


def test_other_text_in_the_same_config_map_is_used_at_once() -> None:
    corrected = replace(OLD, hash="c")
    assert step(at(40), offered=corrected) == Progress(active=corrected)
    other = replace(NEW, hash="c")
    assert step(at(40, ago=10), offered=other).canary == other


def test_a_third_version_restarts_the_canary() -> None:
    third = Revision(version="3.0.0", config_map="prompts-3", hash="d")
    found = step(at(70, ago=30), offered=third)
    assert (found.active, found.canary, found.weight, found.started) == (OLD, third, 10, NOW)


def test_a_raised_initial_weight_takes_effect() -> None:
    one = replace(at(10, ago=5), spec=pack(version="2.0.0", rollout=canary(60, 10, "1m")).spec)
    assert step(one).weight == 60


def test_a_canary_without_a_start_time_is_restarted() -> None:
    assert step(at(40, started=False)).started == NOW


def test_agents_that_lag_behind_hold_a_step_and_a_promotion() -> None:
    lagging = running(active_version="1.0.0")
    assert step(at(10, ago=60), lagging).held_by == ("helper",)
    assert step(at(100), lagging).canary == NEW
    assert step(at(10, ago=30), lagging).held_by == ()


def test_an_agent_reaches_a_weight_when_its_pods_are_ready() -> None:
    ready = CanaryReplicas(version="2.0.0", weight=40, replicas=4, ready=4)
    assert has_reached(running(canary=ready), NEW, 40)
    assert has_reached(running(canary=ready), NEW, 10)
    assert not has_reached(running(canary=ready), NEW, 70)
    assert not has_reached(running(canary=replace(ready, ready=3)), NEW, 40)
    assert not has_reached(running(canary=replace(ready, version="3.0.0"), active_version="1.0.0"), NEW, 40)


def test_an_agent_that_runs_only_the_version_has_reached_every_weight() -> None:
    assert has_reached(running(active_version="2.0.0"), NEW, 100)


def test_an_agent_without_replicas_holds_no_step_and_one_that_does_not_run_does() -> None:
    assert has_reached(agent(replicas=0), NEW, 100)
    assert not has_reached(agent(), NEW, 0)
    assert not has_reached(replace(running(active_version="2.0.0"), status=AgentRuntimeStatus(phase="Failed")), NEW, 0)
