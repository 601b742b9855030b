"""Every scenario of the conformance kit, against a server of each backend over loopback."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.conformance import expected, scenarios, serving

BACKENDS = ("memory", "sqlite")
HELD = tuple(scenario for scenario in scenarios.load() if scenario.area not in expected.AREAS)


@pytest.fixture(scope="module", params=BACKENDS)
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of one server for all scenarios of a backend: they do not depend on each other."""
    data = tmp_path_factory.mktemp("conformance") / "data.db" if request.param == "sqlite" else None
    with serving.serve(data) as address:
        yield address


@pytest.mark.parametrize("scenario", HELD, ids=lambda scenario: f"{scenario.area}: {scenario.name}")
def test_the_server_answers_as_kubernetes_does(url: str, scenario: Any):
    found = scenarios.run(scenario, url, serving.TOKEN)
    reason = expected.SCENARIOS.get(scenario.area, {}).get(scenario.name)
    if reason is None:
        assert not found, "\n".join(found)
    else:
        assert found, f"This scenario passes now: take it out of tests/conformance/expected.py ({reason})."


def test_whatever_is_excused_exists():
    known = {(scenario.area, scenario.name) for scenario in scenarios.load()}
    excused = {(area, name) for area, names in expected.SCENARIOS.items() for name in names}
    assert excused <= known
    assert expected.AREAS.keys() <= {area for area, _ in known}
