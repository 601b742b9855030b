"""Looking into the caches without waiting."""

from levelset.runtime.controller.cache_lookup import Peeking
from tests.apiserver.clock import virtual
from tests.runtime.controller.loops import ConfigMap, Web, open_loop

__all__: list[str] = []

SETTINGS = ConfigMap.__definition__.gvk
SITES = Web.__definition__.gvk


@virtual
async def test_what_nobody_held_is_found_as_soon_as_somebody_declares_it_and_no_longer_when_he_has_gone() -> None:
    async with open_loop() as loop:
        peeking = Peeking(loop.cluster)
        for _ in range(2):
            assert peeking.source(SETTINGS, "default") is None
        async with loop.cluster.declare(Web):
            assert peeking.source(SETTINGS, "default") is None
            async with loop.cluster.declare(ConfigMap) as held:
                found = peeking.source(SETTINGS, "default")
                assert found is not None
                assert found.informer is held.informer
                assert peeking.source(SETTINGS, "default") is found
            assert peeking.source(SETTINGS, "default") is None
            assert peeking.source(SITES, "default") is not None
        async with loop.cluster.declare(ConfigMap) as again:
            found = peeking.source(SETTINGS, "other")
            assert found is not None
            assert found.informer is again.informer
