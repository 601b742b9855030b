import logging
from typing import Any

import pytest

from levelset.client.calls import Answer, Call, Send
from levelset.errors import ApiError, Unreachable
from levelset.web import Headers
from tests.client.world import Namespace, Website, answering, failing, open_client

LIST = b'{"kind":"NamespaceList","items":[]}'


async def test_each_distinct_warning_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    def warned(text: str) -> Answer:
        return answering(200, LIST, warning=f'299 - "{text}"')

    hook = failing(warned("old version"), warned("old version"), warned("other"))
    async with open_client(crd=False, hooks=[hook]) as client:
        with caplog.at_level(logging.WARNING, logger="levelset.client"):
            for _ in range(3):
                await client.list(Namespace)
    records: list[Any] = [record for record in caplog.records if record.name == "levelset.client"]
    assert [record.warning for record in records] == ["old version", "other"]
    assert records[0].request == "list Namespace"


async def test_warnings_go_to_whoever_asked_for_them() -> None:
    told: list[tuple[str, str]] = []
    hook = failing(Answer(status=200, headers=Headers([("Warning", '299 - "a"'), ("Warning", '299 - "b"')]), body=LIST))
    asking = {"on_warning": lambda call, text: told.append((call.words, text))}
    async with open_client(crd=False, hooks=[hook], **asking) as client:
        await client.list(Namespace)
    assert told == [("list Namespace", "a"), ("list Namespace", "b")]


async def test_a_redirect_is_no_answer() -> None:
    async with open_client(crd=False, hooks=[failing(answering(302, location="/elsewhere"))]) as client:
        with pytest.raises(ApiError, match="302"):
            await client.list(Namespace)


async def test_a_hook_may_change_the_call_or_answer_in_the_servers_place() -> None:
    async def elsewhere(call: Call, send: Send) -> Answer:
        if "websites" in call.path:
            raise Unreachable("by a hook")
        return Answer(status=200, body=LIST)

    async with open_client(crd=False, hooks=[elsewhere]) as client:
        assert len(await client.list(Namespace)) == 0
        with pytest.raises(Unreachable, match="by a hook"):
            await client.list(Website)
