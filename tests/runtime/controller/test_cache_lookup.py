"""Synchronous reads from the caches, without waiting."""

from levelset.runtime.controller.cache_lookup import CacheLookup
from levelset.testing.virtual_time import virtual
from tests.runtime.controller.controller_loop import ConfigMap, Web, open_loop

__all__: list[str] = []

SETTINGS = ConfigMap.__definition__.gvk
SITES = Web.__definition__.gvk


@virtual
async def test_an_undeclared_kind_is_found_once_declared_and_not_after_its_informer_is_closed() -> None:
    async with open_loop() as loop:
        cache_lookup = CacheLookup(loop.cluster)
        for _ in range(2):
            assert cache_lookup.source(SETTINGS, "default") is None
        async with loop.cluster.declare(Web):
            assert cache_lookup.source(SETTINGS, "default") is None
            async with loop.cluster.declare(ConfigMap) as held:
                found = cache_lookup.source(SETTINGS, "default")
                assert found is not None
                assert found.informer is held.informer
                assert cache_lookup.source(SETTINGS, "default") is found
            assert cache_lookup.source(SETTINGS, "default") is None
            assert cache_lookup.source(SITES, "default") is not None
        async with loop.cluster.declare(ConfigMap) as again:
            found = cache_lookup.source(SETTINGS, "other")
            assert found is not None
            assert found.informer is again.informer
