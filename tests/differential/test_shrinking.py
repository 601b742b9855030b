"""A sequence is shrunk to what is needed for a difference."""

from typing import Any

from tests.differential.shrinking import renumbered, shrink


async def test_only_the_requests_and_members_that_matter_are_left():
    steps: list[Any] = [
        {"do": "GET /a"},
        {"do": "POST /b", "body": {"metadata": {"name": "b"}, "spec": {"x": 1, "y": [1, 2]}}},
        {"do": "GET /c", "query": {"limit": "1"}},
        {
            "do": "PUT /d",
            "query": {"pretty": "true"},
            "accept": "table",
            "body": {"spec": {"z": [{"w": 1, "v": 2}], "q": 3}},
        },
    ]

    async def differs(tried: list[Any]) -> bool:
        first = any(step["do"] == "POST /b" and "x" in step["body"].get("spec", {}) for step in tried)
        spec = tried[-1].get("body", {}).get("spec", {})
        return first and tried[-1]["do"] == "PUT /d" and any(one.get("v") == 2 for one in spec.get("z", ()))

    assert await shrink(steps, differs) == [
        {"do": "POST /b", "body": {"metadata": {"name": "b"}, "spec": {"x": 1}}},
        {"do": "PUT /d", "query": {}, "body": {"spec": {"z": [{"v": 2}]}}},
    ]


async def test_a_dry_run_stays_one():
    step = {"do": "POST /a", "query": {"dryRun": "All", "fieldManager": "me"}, "body": {}}

    async def differs(_tried: list[Any]) -> bool:
        return True

    assert await shrink([step], differs) == [{"do": "POST /a", "query": {"dryRun": "All"}, "body": {}}]


def test_references_follow_their_requests():
    steps = [{"do": "GET /a"}, {"do": "GET /b"}, {"do": "PUT /c", "body": {"rv": "${rv2}", "uid": "${uid1}"}}]
    assert renumbered(steps, {0})[-1]["body"] == {"rv": "${rv1}", "uid": "${uid0}"}
