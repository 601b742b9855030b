"""What may be said on the command line of a program that calls `run`."""

import pytest

from levelset.errors import ConfigError
from levelset.runtime.manager.run import Arguments, read_arguments


def test_nothing_said_is_nothing_meant():
    assert read_arguments([]) == Arguments()


def test_all_words_are_understood_joined_or_apart():
    words = ["--local", "--kubeconfig", "a b", "--context=work", "-n", "shop", "--health=0.0.0.0:8081", "--log-json"]
    assert read_arguments(words) == Arguments(
        local=True, kubeconfig="a b", context="work", namespace="shop", health=("0.0.0.0", 8081), log_json=True
    )
    assert read_arguments(["-h"]).help
    assert read_arguments(["-o", "json"]) == read_arguments(["--output=json"]) == Arguments(output="json")
    assert read_arguments(["--context=a=b"]).context == "a=b"


def test_a_port_alone_is_one_of_the_loopback_interface():
    assert read_arguments(["--health", "8081"]).health == ("127.0.0.1", 8081)
    assert read_arguments(["--health", "[::1]:0"]).health == ("::1", 0)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--what"], "--what is not understood"),
        (["blog"], "blog is not understood"),
        (["--local=yes"], "--local is not understood"),
        (["--context"], "--context needs a value"),
        (["--context", "--local"], "--context needs a value"),
        (["--namespace="], "--namespace needs a value"),
        (["--health", "here"], "--health here: give a port"),
        (["--health", "70000"], "--health 70000: give a port"),
        (["--health", "٣"], "give a port"),
        (["-o", "yaml"], "-o yaml: choose text"),
    ],
)
def test_what_is_not_understood_is_refused_with_what_there_is(words, text):
    with pytest.raises(ConfigError, match=text):
        read_arguments(words)
