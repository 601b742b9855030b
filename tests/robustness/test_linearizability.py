"""The checker itself: histories that are known to be right or wrong, and a brute-force search as the oracle."""

import itertools
import random

import pytest

from tests.robustness.linearizability import ABSENT, FOREVER, Operation, find_unlinearizable, is_linearizable, step


def op(verb, called, returned, outcome="done", value=None, *, expected=None, revision=None):
    return Operation("a", verb, called, returned, outcome, value, expected, revision)


GOOD = {
    "nothing": [],
    "one after the other": [
        op("create", 1, 2, value="x", revision=5),
        op("get", 3, 4, value="x", revision=5),
        op("update", 5, 6, value="y", expected=5, revision=7),
        op("delete", 7, 8, expected=7),
        op("get", 9, 10, "absent"),
    ],
    "a read during a write may see either": [
        op("create", 1, 10, value="x", revision=5),
        op("get", 2, 3, "absent"),
        op("get", 4, 5, value="x", revision=5),
    ],
    "one of two updates loses": [
        op("create", 1, 2, value="x", revision=5),
        op("update", 3, 8, value="y", expected=5, revision=6),
        op("update", 4, 7, "conflict", value="z", expected=5),
    ],
    "a cut write may have happened": [
        op("create", 1, FOREVER, "unknown", value="x"),
        op("get", 2, 3, "absent"),
        op("get", 4, 5, value="x", revision=9),
        op("update", 6, 7, value="y", expected=9, revision=10),
    ],
    "a cut write may not have happened": [
        op("create", 1, 2, value="x", revision=1),
        op("update", 3, FOREVER, "unknown", value="y", expected=1),
        op("get", 4, 5, value="x", revision=1),
    ],
}
BAD = {
    "a stale read": [op("create", 1, 2, value="x", revision=5), op("get", 3, 4, "absent")],
    "a lost update": [
        op("create", 1, 2, value="x", revision=5),
        op("update", 3, 4, value="y", expected=5, revision=6),
        op("update", 5, 6, value="z", expected=5, revision=7),
    ],
    "two creates": [op("create", 1, 4, value="x", revision=5), op("create", 2, 3, value="y", revision=6)],
    "a read that goes back": [
        op("create", 1, 2, value="x", revision=1),
        op("update", 3, 10, value="y", expected=1, revision=2),
        op("get", 4, 5, value="y", revision=2),
        op("get", 6, 7, value="x", revision=1),
    ],
    "a revision that goes back": [
        op("create", 1, 2, value="x", revision=5),
        op("update", 3, 4, value="y", expected=5, revision=4),
    ],
    "a refused write that happened": [
        op("create", 1, 2, value="x", revision=5),
        op("update", 3, 4, "conflict", value="y", expected=4),
        op("get", 5, 6, value="y", revision=6),
    ],
    "a conflict without another write": [
        op("create", 1, 2, value="x", revision=5),
        op("update", 3, 4, "conflict", value="y", expected=5),
    ],
    "a value from nowhere": [op("get", 1, 2, value="x", revision=3)],
}


@pytest.mark.parametrize("name", GOOD)
def test_a_history_that_is_linearizable_is_accepted(name):
    assert is_linearizable(GOOD[name])


@pytest.mark.parametrize("name", BAD)
def test_a_history_that_is_not_linearizable_is_found(name):
    assert not is_linearizable(BAD[name])
    assert find_unlinearizable(BAD[name]) == "a"


def test_the_search_agrees_with_trying_all_orders():
    verdicts = [0, 0]
    for seed in range(1500):
        history = random_history(random.Random(seed))
        expected = any(map(is_valid_order, itertools.permutations(history)))
        assert is_linearizable(history) == expected, history
        verdicts[expected] += 1
    assert min(verdicts) > 200


def random_history(dice):
    """Up to five operations of a register that was used by several clients, some of them with a false result."""
    history, state, clock = [], ABSENT, 0
    for revision in range(1, dice.randint(3, 6)):
        verb = dice.choice(["create", "get", "update", "delete"])
        clock += dice.randint(1, 4)
        operation = op(
            verb, clock - dice.randint(0, 6), clock + dice.randint(1, 6), value=f"v{revision}", revision=revision
        )
        operation = as_observed(operation, state, dice)
        state = step(state, operation) or state
        history.append(operation)
    return history


def as_observed(operation, state, dice):
    one = {"key": "a", "verb": operation.verb, "called": operation.called, "returned": operation.returned}
    if dice.random() < 0.15:
        return Operation(**one, outcome=dice.choice(["absent", "conflict"]), expected=state.revision)
    if operation.verb == "create":
        if state.value is not None:
            return Operation(**one, outcome="conflict")
        return Operation(**one, outcome="done", value=operation.value, revision=operation.revision)
    if state.value is None:
        return Operation(**one, outcome="absent")
    if operation.verb == "get":
        return Operation(**one, outcome="done", value=state.value, revision=state.revision)
    outcome = "unknown" if dice.random() < 0.2 else "done"
    revision = operation.revision if outcome == "done" and operation.verb == "update" else None
    value = operation.value if operation.verb == "update" else None
    return Operation(**one, outcome=outcome, value=value, expected=state.revision, revision=revision)


def is_valid_order(order):
    """Whether the operations in this order, some cut ones left out, respect real time and the register."""
    cut = [one for one in order if one.outcome == "unknown"]
    return any(
        keeps_real_time(chosen) and fits(chosen)
        for size in range(len(cut) + 1)
        for left_out in itertools.combinations(cut, size)
        for chosen in [[one for one in order if one not in left_out]]
    )


def keeps_real_time(order):
    # A cut operation may happen at any time after its call.
    return not any(
        later.returned < earlier.called and later.outcome != "unknown"
        for earlier, later in itertools.combinations(order, 2)
    )


def fits(order):
    state = ABSENT
    for operation in order:
        if operation.outcome == "unknown" and operation.verb == "get":
            continue
        state = step(state, operation)
        if state is None:
            return False
    return True
