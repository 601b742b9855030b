"""`levelset completion SHELL`: prints what makes a shell complete the words of this command."""

import click
from click.shell_completion import get_completion_class

__all__ = ["completion"]


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Prints what makes a shell complete this command.

    Example: levelset completion bash >> ~/.bashrc
    """
    found = get_completion_class(shell)
    assert found is not None, "click knows these three"
    root = context.find_root()
    made = found(root.command, {}, "levelset", "_LEVELSET_COMPLETE")
    click.echo(made.source_template % made.source_vars())
