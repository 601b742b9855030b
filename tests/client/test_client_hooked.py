"""A client with one more hook."""

from levelset.client.transport.interface import Call
from tests.apiserver.clock import virtual
from tests.client.world import ConfigMap, open_client, recording


@virtual
async def test_a_hook_that_is_added_sees_what_goes_through_the_new_client_before_all_others():
    first: list[Call] = []
    later: list[Call] = []
    async with open_client(hooks=[recording(first)]) as client:
        hooked = client.hooked(recording(later))
        await client.list(ConfigMap)
        assert (len(first), len(later)) == (1, 0)
        await hooked.list(ConfigMap)
        assert (len(first), len(later)) == (2, 1)


@virtual
async def test_closing_a_hooked_client_leaves_the_connections_to_who_opened_them():
    async with open_client() as client:
        await client.hooked(recording([])).aclose()
        await client.list(ConfigMap)
