"""`levelset completion SHELL`: prints the completion script of a shell."""

import click
from click.shell_completion import get_completion_class

__all__ = ["completion"]


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Prints the completion script of a shell.

    Example: levelset completion bash >> ~/.bashrc
    """
    found = get_completion_class(shell)
    assert found is not None, "click supports these three"
    root = context.find_root()
    made = found(root.command, {}, "levelset", "_LEVELSET_COMPLETE")
    click.echo(made.source_template % made.source_vars())
