"""Omnia's controllers pass the explorations: crashes, lost responses and stale reads."""

import pytest

from levelset.testing.explore import Exploration, explore
from systems.omnia.tests.explorations import agents, canaries, packs, registries

__all__: list[str] = []


@pytest.mark.parametrize("one", [agents, packs, canaries, registries], ids=lambda one: one.name)
def test_omnia_survives_faults_at_the_most_critical_steps(one: Exploration) -> None:
    report = explore(one, budget=5)
    assert report.ok, report.story()
