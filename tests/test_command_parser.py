"""Commands that are built with argparse: examples in their help, and suggestions for mistyped words."""

import pytest

from levelset.command_parser import CommandParser, suggestion


def made() -> CommandParser:
    """A command with the subcommands `start` and `stop`."""
    parser = CommandParser(prog="shop", example="shop start")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    start = commands.add_parser("start", epilog="And more.", example="shop start --port 80")
    start.add_argument("--port", type=int)
    start.add_argument("--engine", choices=("docker", "podman"))
    commands.add_parser("stop")
    return parser


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The last line that the command prints when it refuses these words."""
    with pytest.raises(SystemExit) as exit_:
        made().parse_args(words)
    assert exit_.value.code == 2
    return capsys.readouterr().err.splitlines()[-1]


def test_arguments_are_parsed_as_by_argparse() -> None:
    assert vars(made().parse_args(["start", "--port", "80"])) == {"command": "start", "port": 80, "engine": None}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["strat"], "Did you mean start?"),
        (["start", "--prot", "80"], "shop start: error: unknown argument --prot. Did you mean --port?"),
        (["start", "--prot=80"], "shop start: error: unknown argument --prot=80. Did you mean --port?"),
        (["start", "--engine", "podmn"], "Did you mean podman?"),
        (["stop", "--prot"], "shop stop: error: unknown argument --prot."),
        (["start", "--xyzzy"], "shop start: error: unknown argument --xyzzy."),
        (["stop", "xyzzy"], "shop stop: error: unknown argument xyzzy."),
    ],
)
def test_a_mistyped_word_is_refused_with_the_nearest_of_its_command(
    capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    assert refused(capsys, *words).endswith(message)


def test_other_mistakes_have_the_message_of_argparse_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert refused(capsys, "start", "--port", "x") == "shop start: error: argument --port: invalid int value: 'x'"


def test_the_help_ends_with_the_example(capsys: pytest.CaptureFixture[str]) -> None:
    ends = {(): "Example: shop start", ("start",): "And more. Example: shop start --port 80"}
    for words, end in ends.items():
        with pytest.raises(SystemExit):
            made().parse_args([*words, "--help"])
        assert capsys.readouterr().out.endswith(f"\n{end}\n")


@pytest.mark.parametrize("width", range(40, 80, 6))
def test_the_help_cuts_no_word_at_a_hyphen(
    width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    example = "shop start, then kubectl --kubeconfig ~/.shop-of-mine/kubeconfig get all"
    parser = CommandParser(prog="shop", example=example)
    parser.add_argument("--file", help="writes here what a shop that is open has; see shop-of-mine")
    with pytest.raises(SystemExit):
        parser.parse_args(["--help"])
    shown = capsys.readouterr().out.split()
    assert {"~/.shop-of-mine/kubeconfig", "--kubeconfig", "shop-of-mine"} <= set(shown)


def test_a_word_that_resembles_none_has_no_suggestion() -> None:
    assert (suggestion("xyzzy", ["start"]), suggestion("strat", ["start"])) == ("", "Did you mean start?")
