# SPDX-License-Identifier: Apache-2.0
"""docs/cli.md says what the commands say, and every command says enough."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import click
import pytest

from lakebraid.cli.main import COMMANDS, lakebraid
from lakebraid.cli.page import page

pytestmark = pytest.mark.unit
WITHOUT_JSON = {"demo", "serve", "view"}
"""Commands whose result is something to look at."""


_page = cache(page)


def test_the_page_of_the_command_line_is_what_the_commands_say() -> None:
    written = (Path(__file__).parents[3] / "docs/cli.md").read_text()
    assert written == _page(), "run: python -m lakebraid.cli.page > docs/cli.md"


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_has_an_example_json_and_help_for_each_option(name: str) -> None:
    command = lakebraid.get_command(click.Context(lakebraid), name)
    assert command is not None
    options = [p for p in command.params if isinstance(p, click.Option)]
    assert [o.name for o in options if not o.help] == []
    assert name in WITHOUT_JSON or any("--json" in option.opts for option in options)
    assert f"lakebraid {name}" in f"{command.epilog} {command.help}", "an example is missing"
    assert f"### {name}\n" in _page()
