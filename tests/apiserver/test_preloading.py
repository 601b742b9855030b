"""No request reads a file: the guard of all tests raises where one would, and what is needed has been read before."""

import asyncio

from levelset.apiserver.preloading import read_data
from levelset.re2 import compile_regex, unicode


async def test_a_pattern_with_categories_of_characters_waits_for_no_disk() -> None:
    for found in (unicode._bytes, unicode._data, unicode._sets, unicode._aliases, unicode.families, unicode.cased):
        found.cache_clear()
    await asyncio.to_thread(read_data.__wrapped__)
    assert compile_regex(r"^(?i)\p{Greek}+ü$").matches("ΩÜ")
