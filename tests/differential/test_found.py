"""Every difference that the fuzzer has found is answered as kube-apiserver 1.36.4 answers it, or is listed."""

from datetime import UTC, datetime

import pytest

from levelset.apiserver.package_data import load_package_data
from tests.differential import corpus, scenarios
from tests.differential.servers import install, open_ours

_SCENARIOS = scenarios.load()
_NAMES = sorted(_SCENARIOS)
_AT_ONCE = 40
_BATCHES = [_NAMES[start : start + _AT_ONCE] for start in range(0, len(_NAMES), _AT_ONCE)]
corpus.load()  # both before an event loop runs
load_package_data()


@pytest.mark.parametrize("names", _BATCHES, ids=lambda names: names[0])
async def test_the_scenarios_that_were_found_are_answered_as_recorded(names: list[str]):
    problems: dict[str, list[str]] = {}
    began = datetime.now(UTC)  # what was written within one second is replayed so
    async with open_ours(lambda: began) as ours:
        await install(ours, corpus.load().definitions)
        for name in names:
            found = await scenarios.replay(name, _SCENARIOS[name], ours)
            if bool(found) != (name in scenarios.OPEN):
                problems[name] = found or ["passes: remove it from open_differences.json"]
    assert not problems, "\n".join(f"{name}: {' | '.join(found)}" for name, found in problems.items())
