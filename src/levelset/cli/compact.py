"""`levelset compact`: compacts the history of a running server."""

import http.client
import json
import ssl
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click

from levelset.apiserver.kubeconfig_file import ConnectionInfo, read_kubeconfig
from levelset.cli.output import output_option, progress, reporting_errors, show_json

__all__ = ["compact"]


@click.command()
@click.option(
    "--kubeconfig",
    default="levelset.kubeconfig",
    type=click.Path(path_type=Path),
    help="The kubeconfig that `levelset serve` wrote.",
)
@output_option
def compact(kubeconfig: Path, output: str) -> None:
    """Compacts the history of a running server up to now.

    Example: levelset compact --kubeconfig shop.kubeconfig
    """
    with reporting_errors():
        contact = read_kubeconfig(kubeconfig)
        with progress(f"waiting for the server at {contact.url}", output=output):
            result = _post(contact, "/levelset/compact")
    if output == "json":
        show_json(result)
        return
    click.echo(f"compacted {result['forgotten']} changes; history begins at revision {result['compacted']}")


def _post(contact: ConnectionInfo, path: str) -> dict[str, Any]:
    parts = urlsplit(contact.url)
    connection = _connect(parts.hostname or "", parts.port, contact)
    try:
        connection.request("POST", path, headers={"Authorization": f"Bearer {contact.token}"})
        response = connection.getresponse()
        body = response.read()
    except (OSError, http.client.HTTPException) as error:
        raise click.ClickException(f"The server at {contact.url} does not respond: {error}. Is it running?") from error
    finally:
        connection.close()
    if response.status != 200:
        raise click.ClickException(f"The server at {contact.url} refused ({response.status}): {body[:500].decode()}")
    result: dict[str, Any] = json.loads(body)
    return result


def _connect(host: str, port: int | None, contact: ConnectionInfo) -> http.client.HTTPConnection:
    if contact.ca is None:
        return http.client.HTTPConnection(host, port, timeout=30)
    context = ssl.create_default_context(cadata=contact.ca.decode("ascii"))
    return http.client.HTTPSConnection(host, port, timeout=30, context=context)
