"""The dashboard's panel of an agent, with real processes: its sections, and an answer."""

from levelset import Ref
from levelset_omnia.agent_panel import agent_panel
from levelset_omnia.kinds import AgentRuntime
from systems.omnia.tests.test_local_system import REAL, is_running, local_omnia, manifests


async def test_the_panel_shows_the_agent_its_prompt_and_tools_and_answers() -> None:
    panel, ref = agent_panel(), Ref(AgentRuntime, "helper", "default")
    assert panel.answer is not None
    async with local_omnia() as local:
        for tree in manifests().values():
            await local.client.create(tree)
        await local.client.wait(ref, is_running, within=REAL)
        shown = await panel.describe(local.client, ref)
        by_title = {one.title: one for one in shown.sections}
        assert dict(by_title["Agent"].rows)["Phase"] == "Running"
        assert "Be kind." in by_title["Prompt"].text
        assert by_title["Tools"].rows == (("ToolRegistry", "none"),)
        assert shown.chat == "Try it"
        assert "hello" in (await panel.answer(local.client, ref, "hello", "mine")).lower()
