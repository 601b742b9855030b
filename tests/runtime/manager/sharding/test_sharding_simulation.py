"""The simulation of many members: it has the owners of the real code, and what it measures is within the promise."""

from pathlib import Path

from benchmarks.sharding_simulation import Keys, simulate, write_plots

from levelset.runtime.manager.sharding import View

NAMES = tuple(f"m{number:05}" for number in range(5))


def owners_of(members: tuple[str, ...], keys: int) -> list[str]:
    view = View(members[0], {one: one for one in members})
    return [view.owner(f"sites/default/site-{number}") for number in range(keys)]


def test_the_owners_are_those_of_the_real_code_as_members_come_and_go() -> None:
    keys = Keys(500)
    for one in NAMES:
        keys.join(one)
    assert keys.owners == owners_of(NAMES, 500)
    had = keys.owners.count(NAMES[1]) + keys.owners.count(NAMES[3])
    assert keys.leave([NAMES[1], NAMES[3]]) == had
    assert keys.owners == owners_of((NAMES[0], NAMES[2], NAMES[4]), 500)
    assert keys.join(NAMES[3]) == owners_of((NAMES[0], NAMES[2], NAMES[3], NAMES[4]), 500).count(NAMES[3])


def test_changes_of_the_members_stay_within_what_is_promised(tmp_path: Path) -> None:
    found = simulate(12, 1000, 8)
    assert max(one["gap"] for one in found["changes"]) <= 17.0
    assert all(one["moved"] > 0 for one in found["changes"])
    peace = found["messages_per_second_in_peace"]
    assert 5.0 <= peace["writes"] <= 6.0, "twelve members renew every two seconds"
    assert abs(peace["events"] / peace["writes"] - 12) < 0.1, "and each of them sees all renewals"
    write_plots(found, tmp_path)
    assert (tmp_path / "sharding-gaps.svg").read_text("utf-8").count("<circle") == 8 + 5
