# SPDX-License-Identifier: Apache-2.0
"""The command `lakebraid`: finds the subcommand, and turns what goes wrong into a message and an exit code."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import click

from lakebraid.errors import InvalidArgument, LakebraidError

# name: (module:command, what `lakebraid --help` says). The text stands here and not only at the command so that help
# imports no command, and with it no pyarrow and no pyspark; a test holds the two equal.
COMMANDS: dict[str, tuple[str, str]] = {
    "adopt": (
        "lakebraid.cli.adopting:adopt",
        "Find out what a table of Apache Hudi is, and state what it must say so that lakebraid can write it.",
    ),
    "archive": ("lakebraid.cli.servicing:archive", "Move old instants from the timeline into the history."),
    "audit": (
        "lakebraid.cli.auditing:audit",
        "Hold what was committed against what readers get, and look at everything around it.",
    ),
    "clean": (
        "lakebraid.cli.servicing:clean",
        "Remove files of versions that are too old, and say what still needs others.",
    ),
    "cluster": (
        "lakebraid.cli.servicing:cluster",
        "Put small file groups together and sort their rows; for tables without a bucket index.",
    ),
    "compact": ("lakebraid.cli.servicing:compact", "Merge log files into base files, beside any number of writers."),
    "demo": (
        "lakebraid.cli.demo:demo",
        "Let many writers loose on one table, kill one, add a column while they run, and account for every row.",
    ),
    "doctor": ("lakebraid.cli.doctor:doctor", "Look at what lakebraid needs on this machine, and say what is missing."),
    "export": (
        "lakebraid.cli.exporting:export",
        "Write rows of a table into one Parquet, CSV or JSON file (one object per line), without Spark.",
    ),
    "files": (
        "lakebraid.cli.detailing:files",
        "List the file slices that readers take: each file group with its base file, its logs and their sizes.",
    ),
    "locks": (
        "lakebraid.cli.detailing:locks",
        "Show who holds Apache Hudi's locks, for how long, and whether the holder still lives.",
    ),
    "serve": (
        "lakebraid.cli.viewing:serve",
        "Show a table in a browser as it changes, read-only and only on this machine; Ctrl-C ends it.",
    ),
    "show": (
        "lakebraid.cli.looking:show",
        "Print rows of a table, or all about one INSTANT: files, rows, metadata, plan; without Spark.",
    ),
    "torture": (
        "lakebraid.cli.torture.run:torture",
        "Kill and stop real writers on one table at random, then account for every row.",
    ),
    "timeline": (
        "lakebraid.cli.looking:timeline",
        "Show what happened to a table: each instant with its times, action, state, rows and files.",
    ),
    "log-compact": (
        "lakebraid.cli.servicing:log_compact",
        "Merge small log files into larger ones, where rewriting base files would cost too much.",
    ),
    "restore": (
        "lakebraid.cli.servicing:restore",
        "Remove everything that completed after a savepoint, a write or a moment (17 digits, or RFC 3339).",
    ),
    "rollback": (
        "lakebraid.cli.servicing:rollback",
        "Roll back the writes of dead writers, and finish what others began and left.",
    ),
    "savepoint": (
        "lakebraid.cli.servicing:savepoint",
        "Keep the table as of a write (the newest, or INSTANT) from being cleaned away.",
    ),
    "services": (
        "lakebraid.cli.servicing:services",
        "Do whatever is due, again and again: run it beside a table, in any number of copies.",
    ),
    "status": (
        "lakebraid.cli.looking:status",
        "Show who writes, what waits, what is due, who holds back what, and what to run.",
    ),
    "view": (
        "lakebraid.cli.viewing:view",
        "Draw the timeline and the files of a table into one HTML file, to look at and to send around.",
    ),
    "why": (
        "lakebraid.cli.auditing:why",
        "Tell the story of an instant: who wrote it, how it ended and by what rule, and what hides its rows now.",
    ),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code: 0, 1 for failure, 2 for misuse, 130 for Ctrl-C."""
    frame = Frame()
    try:
        code = lakebraid.main(args=arguments, prog_name="lakebraid", standalone_mode=False, obj=frame)
        sys.stdout.flush()  # While a broken pipe can still be told from a failure.
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return 130
    except BrokenPipeError:
        # The reader of our output has enough (click sees to what it prints itself). Python's flush at exit must not
        # complain either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except LakebraidError as error:
        if frame.debug:
            raise
        click.echo(f"error: {error}", err=True)
        return 2 if isinstance(error, InvalidArgument) else 1
    return code if isinstance(code, int) else 0


@dataclass(slots=True)
class Frame:
    """What the options before the subcommand said; click hands it on as `ctx.obj`."""

    debug: bool = False


class LazyGroup(click.Group):
    """A group whose commands are imported when they are run."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - see above
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(module), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name][1]) for name in self.list_commands(ctx)])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="lakebraid", prog_name="lakebraid", message="%(prog)s %(version)s")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
@click.pass_obj
def lakebraid(frame: Frame, *, debug: bool) -> None:
    """Many writers on one Apache Hudi table."""
    frame.debug = debug


if __name__ == "__main__":
    sys.exit(main())
