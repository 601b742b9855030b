"""`levelset compact`: makes a running server forget its history of changes."""

import http.client
import json
import ssl
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click

from levelset.apiserver.kubeconfig_file import Contact, read_kubeconfig
from levelset.cli.output import output_option, show_json, speaking, working

__all__ = ["compact"]


@click.command()
@click.option(
    "--kubeconfig",
    default="levelset.kubeconfig",
    type=click.Path(path_type=Path),
    help="The file that `levelset serve` printed.",
)
@output_option
def compact(kubeconfig: Path, output: str) -> None:
    """Makes a running server forget its history of changes up to now."""
    with speaking():
        contact = read_kubeconfig(kubeconfig)
        with working(f"waits for the server at {contact.url}", output=output):
            told = _post(contact, "/levelset/compact")
    if output == "json":
        show_json(told)
        return
    click.echo(f"forgot {told['forgotten']} changes; history begins at revision {told['compacted']}")


def _post(contact: Contact, path: str) -> dict[str, Any]:
    parts = urlsplit(contact.url)
    connection = _connect(parts.hostname or "", parts.port, contact)
    try:
        connection.request("POST", path, headers={"Authorization": f"Bearer {contact.token}"})
        answer = connection.getresponse()
        body = answer.read()
    except (OSError, http.client.HTTPException) as error:
        raise click.ClickException(f"The server at {contact.url} does not answer: {error}. Is it running?") from error
    finally:
        connection.close()
    if answer.status != 200:
        raise click.ClickException(f"The server at {contact.url} refused ({answer.status}): {body[:500].decode()}")
    told: dict[str, Any] = json.loads(body)
    return told


def _connect(host: str, port: int | None, contact: Contact) -> http.client.HTTPConnection:
    if contact.ca is None:
        return http.client.HTTPConnection(host, port, timeout=30)
    context = ssl.create_default_context(cadata=contact.ca.decode("ascii"))
    return http.client.HTTPSConnection(host, port, timeout=30, context=context)
