"""The command line options of a program that calls `run`."""

import pytest

from levelset.errors import ConfigError
from levelset.runtime.manager.run import Arguments, read_arguments


def test_no_arguments_are_all_defaults():
    assert read_arguments([]) == Arguments()


def test_all_options_are_parsed_joined_or_separate():
    words = ["--local", "--kubeconfig", "a b", "--context=work", "-n", "shop", "--health=0.0.0.0:8081", "--log-json"]
    words += ["--leader=shop", "--rbac"]
    assert read_arguments(words) == Arguments(
        local=True,
        rbac=True,
        kubeconfig="a b",
        context="work",
        namespaces=("shop",),
        leader="shop",
        health=("0.0.0.0", 8081),
        log_json=True,
    )
    assert read_arguments(["-h"]).help
    assert read_arguments(["-o", "json"]) == read_arguments(["--output=json"]) == Arguments(output="json")
    assert read_arguments(["--context=a=b"]).context == "a=b"


def test_several_namespaces_are_given_one_by_one():
    words = ["--namespace", "shop", "-n", "bank", "--namespace=shop"]
    assert read_arguments(words).namespaces == ("shop", "bank")


def test_a_port_alone_is_on_the_loopback_interface():
    assert read_arguments(["--health", "8081"]).health == ("127.0.0.1", 8081)
    assert read_arguments(["--health", "[::1]:0"]).health == ("::1", 0)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--xyzzy"], "unknown option --xyzzy; usage:\n  --local"),
        (["--loacl"], "^unknown option --loacl. Did you mean --local\\? --help shows all options$"),
        (["blog"], "unknown option blog"),
        (["--local=yes"], "unknown option --local"),
        (["--context"], "--context needs a value"),
        (["--context", "--local"], "--context needs a value"),
        (["--namespace="], "--namespace needs a value"),
        (["--leader"], "--leader needs a value"),
        (["--health", "here"], "--health here: must be a port"),
        (["--health", "70000"], "--health 70000: must be a port"),
        (["--health", "٣"], "must be a port"),
        (["-o", "yaml"], "-o yaml: must be text"),
    ],
)
def test_unknown_options_raise_a_config_error_with_the_usage(words, text):
    with pytest.raises(ConfigError, match=text):
        read_arguments(words)
