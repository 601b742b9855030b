"""The explorer finds nothing to say about Omnia's controllers: crashes, lost answers and stale reads do no harm."""

import pytest

from levelset.testing.explore import Exploration, explore
from systems.omnia.tests.explored import agents, canaries, packs, registries

__all__: list[str] = []


@pytest.mark.parametrize("one", [agents, packs, canaries, registries], ids=lambda one: one.name)
def test_omnia_survives_what_goes_wrong_at_its_most_telling_steps(one: Exploration) -> None:
    report = explore(one, budget=5)
    assert report.ok, report.story()
