"""`levelset storage`: checks and repairs the data file of a server that is not running, and copies storages."""

import asyncio
import shlex
from pathlib import Path

import click

from levelset.cli.commands import CommandGroup
from levelset.cli.etcd_options import EtcdOptions, etcd_options
from levelset.cli.output import CommandFailed, UsageError, output_option, progress, reporting_errors, show_json
from levelset.storage import DataFile, DumpFile, EtcdKeys, Place, check_file, copy_storage, repair_file

__all__ = ["check", "copy", "repair", "storage"]


@click.group(cls=CommandGroup)
def storage() -> None:
    """Checks, repairs and copies the storage of a server that is not running.

    Example: levelset storage check shop.db
    """


@storage.command()
@click.argument("path", type=click.Path(path_type=Path))
@output_option
def check(path: Path, output: str) -> None:
    """Reads the whole file PATH, and says what is damaged or lost; changes nothing. Exit code 1 if something is.

    Example: levelset storage check shop.db
    """
    with reporting_errors(), progress(f"reading {path}", output=output):
        found = check_file(path)
    if output == "json":
        show_json({**found._asdict(), "path": str(found.path), "intact": found.is_intact})
    else:
        click.echo(f"{path}: {found.items} objects, revision {found.revision}")
        for line in _losses(found.damaged, found.missing, found.lost_writes, found.problems):
            click.echo(f"  {line}")
    if not found.is_intact:
        command = f"levelset storage repair --accept-loss {shlex.quote(str(path))}"
        raise CommandFailed(f"{path} is damaged; restore a copy, or continue without what is lost: {command}")


@storage.command()
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--accept-loss", is_flag=True, help="Continue without what cannot be read.")
@output_option
def repair(path: Path, accept_loss: bool, output: str) -> None:
    """Saves what is intact in PATH into a new file in its place, and says what is lost; the old file stays beside it.

    Clients of the server list again: the revision continues after the newest that was acknowledged.

    Example: levelset storage repair --accept-loss shop.db
    """
    with reporting_errors():
        found = check_file(path)
        if found.is_intact:
            click.echo(f"{path} is intact: nothing to repair")
            return
        lines = _losses(found.damaged, found.missing, found.lost_writes, found.problems)
        if not accept_loss:
            text = "\n".join(f"  {line}" for line in lines)
            raise UsageError(f"{path} cannot be repaired without a loss:\n{text}\nPass --accept-loss to go on.")
        with progress(f"writing {path}", output=output):
            found, old = repair_file(path)
    if output == "json":
        show_json({**found._asdict(), "path": str(found.path), "old": str(old)})
        return
    click.echo(f"{path} has {found.items} intact objects now; the old file is {old}")
    for line in lines:
        click.echo(f"  {line}")


@storage.command()
@click.argument("source")
@click.argument("target")
@etcd_options
@output_option
def copy(source: str, target: str, access: EtcdOptions, output: str) -> None:
    """Copies everything from SOURCE to TARGET, which must be empty, reads it again and compares.

    Each is the data file of a server, a dump (a file that ends in .jsonl), or the URLs of an etcd, with commas. No
    server may run on either. A dump contains Secrets as they are. Files keep the revisions of the objects; etcd keeps
    their order. Clients of the server list again.

    Example: levelset storage copy shop.db https://127.0.0.1:2379
    """
    done = 0

    def count(number: int) -> None:
        nonlocal done
        done = number

    with reporting_errors(), progress(lambda: f"copying {source} to {target}: {done} objects", output=output):
        places = _place(source, access), _place(target, access)
        report = asyncio.run(copy_storage(*places, progress=count))
    if output == "json":
        show_json({**report._asdict(), "source": source, "target": target})
        return
    order = "each with its revision" if report.keeps_revisions else "in the order of their revisions"
    click.echo(f"copied {report.items} objects ({report.bytes:,} bytes) from {source} to {target}, {order}")
    click.echo(f"verified; {source} was at revision {report.source_revision}, {target} is at {report.target_revision}")


def _place(name: str, access: EtcdOptions) -> Place:
    if name.startswith(("http://", "https://")):
        return EtcdKeys(lambda: access.storage(name, compaction=None))
    return DumpFile(Path(name)) if name.endswith(".jsonl") else DataFile(Path(name))


def _losses(damaged: tuple[str, ...], missing: int, lost_writes: int, problems: tuple[str, ...]) -> list[str]:
    lines = [f"damaged: {key}" for key in damaged]
    if missing:
        lines.append(f"missing: {missing} objects, whose names are not known")
    if lost_writes:
        lines.append(f"lost: the last {lost_writes} acknowledged writes")
    return [*lines, *(f"structure: {problem}" for problem in problems)]
