# SPDX-License-Identifier: Apache-2.0
"""docs/cli.md, made from the commands themselves: `python -m lakebraid.cli.page > docs/cli.md`."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import click

from lakebraid.cli.main import COMMANDS, lakebraid
from lakebraid.inspect.audit.findings import KINDS, Severity

_GROUPS = (
    ("Look", ("status", "timeline", "show", "files", "why", "audit", "locks", "export", "view", "serve")),
    (
        "Tend",
        (
            "adopt",
            "services",
            "compact",
            "log-compact",
            "cluster",
            "clean",
            "archive",
            "rollback",
            "savepoint",
            "restore",
        ),
    ),
    ("Try", ("demo", "doctor", "torture")),
)
_HEAD = """# Command line

Made by `python -m lakebraid.cli.page`; a test holds it against the commands.

A path is all a command needs: a folder, or `s3://`, `gs://`, `az://` with credentials from the environment. Commands that look
change nothing, and work on tables of Apache Hudi, beside any number of writers. `--json` gives the same for programs: one object,
or one per line. `lakebraid --debug COMMAND …` shows the traceback of an error.

Exit codes: 0 done; 1 failed, or what was asked about is not so (as each command says); 2 misuse, and for `audit` a table that
could not be audited; 130 Ctrl-C. Results go to stdout, errors and progress to stderr; progress only if a person looks.
"""


def page() -> str:
    """The whole page."""
    return "\n".join([_HEAD, *_sections(), ""])


def _sections() -> Iterator[str]:
    known = {name for _, names in _GROUPS for name in names}
    groups = (*_GROUPS, ("More", tuple(name for name in sorted(COMMANDS) if name not in known)))
    for title, names in groups:
        present = [name for name in names if name in COMMANDS]
        if present:
            yield f"## {title}\n"
        for name in present:
            yield from _command(name)


def _command(name: str) -> Iterator[str]:
    context = click.Context(lakebraid, info_name="lakebraid")
    command = lakebraid.get_command(context, name)
    if command is None:
        return
    own = click.Context(command, info_name=name, parent=context)
    yield f"### {name}\n"
    yield f"    {' '.join(('lakebraid', name, *command.collect_usage_pieces(own)))}\n"
    yield f"{_plain(command.help or '')}\n"
    options = [p for p in command.params if isinstance(p, click.Option) and not p.hidden]
    if options:
        yield "| option | what it does |"
        yield "|---|---|"
        yield from (_option(option, own) for option in options)
        yield ""
    if command.epilog:
        yield from (f"    {line}" for line in _examples(command.epilog))
        yield ""
    if name == "audit":
        yield from _kinds()


def _option(option: click.Option, context: click.Context) -> str:
    record = option.get_help_record(context)
    names, text = record or ("/".join(option.opts), option.help or "")
    return f"| `{names}` | {_cell(text)} |".replace("  ", " ")


def _examples(epilog: str) -> list[str]:
    lines = (line.strip() for line in epilog.splitlines())
    return [line.partition(": ")[2] if line.startswith("Example") else line for line in lines if line]


def _kinds() -> Iterator[str]:
    """What the audit can find."""
    yield f"It can find {len(KINDS)} kinds of things; `lakebraid audit --kinds` prints them, too.\n"
    for severity in Severity:
        yield f"| {severity.value} | rows | what it means | what to do |"
        yield "|---|---|---|---|"
        for name, kind in KINDS.items():
            if kind.severity is severity:
                rows = "affected" if kind.affects_rows else ""
                yield f"| `{name}` | {rows} | {_cell(kind.meaning)} | {_cell(kind.advice)} |"
        yield ""


def _plain(text: str) -> str:
    """Help as Markdown: click joins the lines of a paragraph, unless it begins with a backspace."""
    paragraphs = [part for part in text.split("\n\n") if part.strip()]
    return "\n\n".join(_kept(part) if part.startswith("\b") else " ".join(part.split()) for part in paragraphs)


def _kept(part: str) -> str:
    lines = [line.strip() for line in part.splitlines()[1:]]
    return "\n".join(f"    {line}" for line in lines if not line.startswith("Example"))


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


if __name__ == "__main__":
    sys.stdout.write(page())
