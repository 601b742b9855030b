"""Every scenario of the conformance kit, against a server of each backend over loopback.

Scenarios do not depend on each other, and a few wait for seconds: they run several at a time, in the order of their
tests, and each test waits for its own. Those that make the server forget its history run alone, after all others.
Scenarios with requests of other users have a server of their own with RBAC; all others show that RBAC changes nothing
for the owner.
"""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

import pytest

from tests.conformance import expected, scenarios, serving

HELD = tuple(scenario for scenario in scenarios.load() if scenario.area not in expected.AREAS)
AT_A_TIME = 4
WITH_ROLES = ("admission_policy", "rbac")


class Rehearsal:
    """The running scenarios of one backend."""

    def __init__(
        self, url: str, url_with_roles: str, pool: ThreadPoolExecutor, wanted: list[Any], failures: list[str]
    ) -> None:
        self.failures = failures
        self.urls = {False: url, True: url_with_roles}
        together = [scenario for scenario in wanted if not scenarios.is_forgetful(scenario)]
        self.under_way: dict[tuple[str, str], Future[list[str]]] = {
            (scenario.area, scenario.name): pool.submit(self.run, scenario) for scenario in together
        }

    def run(self, scenario: Any) -> list[str]:
        return scenarios.run(scenario, self.urls[scenario.area in WITH_ROLES], serving.TOKEN)

    def differences(self, scenario: Any) -> list[str]:
        found = self.under_way.get((scenario.area, scenario.name))
        if found is not None:
            return found.result()
        wait(self.under_way.values())
        return self.run(scenario)


@pytest.fixture(scope="module", params=["memory", "sqlite"])
def rehearsal(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rehearsal]:
    """One server for all scenarios of a backend that are to be tested now."""
    chosen = [getattr(item, "callspec", None) for item in request.session.items if item.path == request.path]
    wanted = [call.params["scenario"] for call in chosen if call and call.params.get("rehearsal") == request.param]
    folder = tmp_path_factory.mktemp("conformance")
    data = [folder / name if request.param == "sqlite" else None for name in ("data.db", "roles.db")]
    with (
        serving.failures() as failures,
        serving.serve(data[0]) as url,
        serving.serve(data[1], rbac=True) as url_with_roles,
        ThreadPoolExecutor(AT_A_TIME) as pool,
    ):
        yield Rehearsal(url, url_with_roles, pool, wanted, failures)


@pytest.mark.parametrize("scenario", HELD, ids=lambda scenario: f"{scenario.area}: {scenario.name}")
def test_the_server_answers_as_kubernetes_does(rehearsal: Rehearsal, scenario: Any):
    found = rehearsal.differences(scenario)
    reason = expected.SCENARIOS.get(scenario.area, {}).get(scenario.name)
    if reason is None:
        assert not found, "\n".join([*found, *rehearsal.failures])
    else:
        assert found, f"This scenario passes now: take it out of tests/conformance/expected.py ({reason})."


def test_every_expected_failure_names_an_existing_scenario():
    known = {(scenario.area, scenario.name) for scenario in scenarios.load()}
    excused = {(area, name) for area, names in expected.SCENARIOS.items() for name in names}
    assert excused <= known
    assert expected.AREAS.keys() <= {area for area, _ in known}
