"""No request reads a file: the guard of all tests raises where one would, and what is needed has been read before."""

import asyncio

from levelset.apiserver.package_data import read_data
from levelset.re2 import compile_regex, unicode_data


async def test_a_pattern_with_categories_of_characters_waits_for_no_disk() -> None:
    for found in (
        unicode_data._bytes,
        unicode_data._data,
        unicode_data._sets,
        unicode_data._aliases,
        unicode_data.families,
        unicode_data.cased,
    ):
        found.cache_clear()
    await asyncio.to_thread(read_data.__wrapped__)
    assert compile_regex(r"^(?i)\p{Greek}+ü$").matches("ΩÜ")
