"""What is recorded of the answers to the corpus, how it is compared, and how a definition and samples are played."""

from pathlib import Path
from typing import Any

import pytest
from scripts.corpus import Comparison, compare, read_expectations, read_facts, recorded_only, surprises, write_facts
from scripts.e2e_suite import Expectations

from levelset.apiserver.package_data import load_package_data
from tests.corpus.answers import fact_of, play, prepare
from tests.corpus.collection import Contents, Corpus, Document, join, read_sources
from tests.corpus.test_collection import definition, thing
from tests.differential.servers import open_ours

SCHEMA = {
    "type": "object",
    "properties": {
        "spec": {"type": "object", "properties": {"size": {"type": "integer", "default": 1}}},
    },
}


def made_definition() -> dict[str, Any]:
    body = definition()
    body["spec"]["versions"][0]["schema"] = {"openAPIV3Schema": SCHEMA}
    hook = {"conversionReviewVersions": ["v1"], "clientConfig": {"url": "https://nowhere.example/convert"}}
    body["spec"]["conversion"] = {"strategy": "Webhook", "webhook": hook}
    return body


@pytest.fixture
def corpus() -> Corpus:
    """One definition with three samples, the second of them invalid."""
    load_package_data()
    objects = [thing("a", spec={}), thing("b", spec={"size": "large"}), thing("c", spec={"size": 2})]
    documents = tuple(Document(f"{number}.yaml#0", body) for number, body in enumerate(objects))
    return join([("module", Contents({"things.example.com": made_definition()}, documents))])


async def test_definitions_and_samples_are_played_and_no_sample_is_stored(corpus: Corpus) -> None:
    async with open_ours() as server:
        await prepare(server)
        found = {one.key: one async for one in play(server, corpus)}
        path = "/apis/example.com/v1/namespaces/corpus/things"
        assert b'"items":[]' in (await server.send("GET", path, {}, b"")).body
    assert {key: one.fact[0] for key, one in found.items()} == {
        "definition things.example.com": 201,
        "0.yaml#0": 201,
        "1.yaml#0": 422,
        "2.yaml#0": 201,
    }
    assert found["0.yaml#0"].body["spec"] == {"size": 1}
    assert len(found["0.yaml#0"].fact) == 3
    assert found["1.yaml#0"].fact[2:] == [
        "Invalid",
        'spec.size: Invalid value: "string": spec.size in body must be of type integer: "string"',
    ]


def test_a_fact_has_hashes_and_warnings_and_no_body() -> None:
    form = {"status": 201, "body": {"secret": "text"}, "warning": ['299 - "old"']}
    fact = fact_of([form, {"status": 201, "body": {}}])
    assert (fact[0], fact[3:]) == (201, ['299 - "old"'])
    assert fact_of([form])[1] == fact[1] != fact[2]


def test_facts_are_read_as_they_were_written(tmp_path: Path) -> None:
    facts = {"one": {"definition a": [201, "x"], "b.yaml#0": [422, "y", "Invalid", "spec: Required value"]}, "two": {}}
    write_facts({"old": {}}, tmp_path / "facts")
    write_facts(facts, tmp_path / "facts")
    assert read_facts(tmp_path / "facts") == facts


def test_answers_that_are_new_missing_or_others_do_not_agree() -> None:
    recorded = {"one": {"a": [201], "b": [201], "c": [201]}, "two": {"d": [201]}}
    answered = {"one": {"a": [201], "b": [422], "e": [201]}}
    found = compare(recorded, answered, ["one"])
    assert [one.name for one in found if one.agrees] == ["one a"]
    assert {one.name for one in found if not one.agrees} == {"one b", "one c", "one e"}
    assert Comparison("one c", [201], None) in found


def test_without_some_modules_what_was_not_answered_is_left_out() -> None:
    recorded, answered = {"one": {"a": [201], "b": [201]}}, {"one": {"a": [422]}}
    assert compare(recorded, answered, ["one"], is_whole=False) == [Comparison("one a", [201], [422])]


def test_what_begins_to_agree_or_to_differ_is_reported() -> None:
    expected = Expectations(fail={"a reason": ("^one b$", "^one c$")})
    outcomes = {"one a": True, "one b": False, "one c": True, "one d": False}
    assert surprises(expected, outcomes) == ["began to agree: one c", "began to differ: one d"]


def test_a_definition_of_a_module_that_is_missing_is_not_taken_from_another() -> None:
    contents = [("two", Contents({"things.example.com": definition()}, ()))]
    facts = {"one": {"definition things.example.com": [201, "x"]}, "two": {}}
    assert recorded_only(contents, facts)[0][1].definitions == {}


def test_a_sample_that_another_module_has_first_is_left_out_without_that_module() -> None:
    documents = (Document("same.yaml#0", thing("a")), Document("own.yaml#0", thing("b")))
    contents = [("two", Contents({"things.example.com": definition()}, documents))]
    two = {"definition things.example.com": [201, "x"], "own.yaml#0": [201, "y"]}
    found = recorded_only(contents, {"one": {"same.yaml#0": [201, "z"]}, "two": two})
    assert [one.where for one in join(found).samples] == ["own.yaml#0"]


def test_a_sample_that_was_not_recorded_is_new_in_the_whole_corpus() -> None:
    contents = [("one", Contents({}, (Document("new.yaml#0", thing("a")),)))]
    assert [one.where for one in recorded_only(contents, {"one": {}})[0][1].objects] == ["new.yaml#0"]


def test_the_corpus_is_recorded_for_every_source() -> None:
    facts = read_facts()
    assert set(facts) == {one.name for one in read_sources()}
    definitions = [key for one in facts.values() for key in one if key.startswith("definition ")]
    assert len(definitions) == len(set(definitions)) >= 400
    assert sum(map(len, facts.values())) - len(definitions) >= 1000
    assert all(read_expectations().values())
