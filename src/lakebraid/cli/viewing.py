# SPDX-License-Identifier: Apache-2.0
"""The commands `view` and `serve`: a table as a picture, in one file or live in a browser."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from lakebraid.clock import SystemClock
from lakebraid.errors import InvalidArgument
from lakebraid.storage import open_storage
from lakebraid.table.grid import text_bytes
from lakebraid.table.loading import load_config
from lakebraid.web.gathering import load_facts
from lakebraid.web.page import render_page
from lakebraid.web.picture import build_model
from lakebraid.web.server import make_server


@click.command(epilog="Example: lakebraid view s3://bucket/orders -o orders.html")
@click.argument("path")
@click.option(
    "-o", "--output", default="timeline.html", show_default=True, help="The file to write; - for standard output."
)
def view(path: str, output: str) -> None:
    """Draw the timeline and the files of a table into one HTML file, to look at and to send around."""
    model = build_model(load_facts(open_storage(path), SystemClock()))
    page = render_page(model).encode()
    if output == "-":
        sys.stdout.buffer.write(page)
        return
    try:
        Path(output).write_bytes(page)
    except OSError as error:
        raise InvalidArgument(
            f"{output} cannot be written: {error.strerror}. The table was only read. Give another file with -o."
        ) from error
    shown = f"{len(model['instants']):,} instants, {text_bytes(len(page))}"
    click.echo(f"{output}: {shown}. Open it in any browser; it needs nothing else.")


@click.command(epilog="Example: lakebraid serve ./orders --port 8765")
@click.argument("path")
@click.option(
    "--port", default=0, type=click.IntRange(0, 65535), help="Which port of 127.0.0.1; a free one if not given."
)
def serve(path: str, port: int) -> None:
    """Show a table in a browser as it changes, read-only and only on this machine; Ctrl-C ends it."""
    storage = open_storage(path)
    load_config(storage)  # a path without a table is said here, not in the browser
    with make_server(storage, SystemClock(), port) as server:
        click.echo(
            f"http://{server.server_address[0]!s}:{server.server_address[1]}/ shows {storage.url}. Ctrl-C ends it."
        )
        sys.stdout.flush()
        server.serve_forever()
