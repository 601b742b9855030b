"""No request reads a file: the blocking-call guard of the test suite raises where one would."""

import asyncio

from levelset.apiserver.package_data import load_package_data
from levelset.re2 import compile_regex, unicode_data


async def test_a_schema_pattern_with_unicode_categories_reads_no_file() -> None:
    for found in (
        unicode_data._bytes,
        unicode_data._data,
        unicode_data._sets,
        unicode_data._aliases,
        unicode_data.families,
        unicode_data.cased,
    ):
        found.cache_clear()
    await asyncio.to_thread(load_package_data.__wrapped__)
    assert compile_regex(r"^(?i)\p{Greek}+ü$").matches("ΩÜ")
