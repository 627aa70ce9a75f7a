# SPDX-License-Identifier: Apache-2.0
"""The story of an instant as sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakebraid.inspect.status_text import counted
from lakebraid.table.grid import printable

if TYPE_CHECKING:
    from lakebraid.inspect.story import Story


def story_text(story: Story) -> str:
    """What happened, one thing a line."""
    what = story.operation.lower().replace("_", " ") if story.operation else story.action or "instant"
    lines = [f"{what.capitalize()} {story.instant}: {story.end}"]
    lines += _beginning(story)
    lines += _end(story)
    lines += list(story.notes)
    return "\n".join([lines[0], *(f"  {printable(line)}" for line in lines[1:])])


def _beginning(story: Story) -> list[str]:
    verb = "Begun" if story.end == "open" else "Written"
    lines = [f"{verb} by {story.writer}."] if story.writer else []
    if story.rows is not None and story.files is not None:
        deletes = f" and {counted(story.deletes, 'delete')}" if story.deletes else ""
        lines.append(f"{counted(story.rows, 'row')}{deletes} in {counted(story.files, 'file')}.")
    return lines


def _end(story: Story) -> list[str]:
    match story.end:
        case "published":
            archived = " It is archived." if story.is_archived else ""
            return [f"Completed {story.completion_time}.{archived}", *_visible(story)]
        case "open":
            return [f"Nothing of it is visible yet. {_life(story)}"]
        case "planned":
            files = "" if story.files is None else f" Its plan names {counted(story.files, 'file')}."
            return [f"Nobody has executed it yet.{files} {_life(story)}"]
        case "rolled back":
            return [*_refusal(story), f"Taken back by {story.undone_by}. Nothing of it is visible, now or later."]
        case "restored":
            return [f"Taken back by the restore {story.undone_by}, as was everything after the moment it returned to."]
    return ["Neither timeline, history nor ledger know it. Whoever named it may mean another table."]


def _visible(story: Story) -> list[str]:
    if not story.files:
        return []
    hidden = [f"{counted(h.files, 'file')} {h.how} {h.instant}." for h in story.hidden_by]
    return [f"Readers take {story.read_files:,} of its {counted(story.files, 'file')} now.", *hidden]


def _life(story: Story) -> str:
    if story.silent_ms is None:
        return "No heartbeat is there."
    return f"The last heartbeat was {story.silent_ms / 1000:,.1f} s ago."


def _refusal(story: Story) -> list[str]:
    """What whoever took it back left as word."""
    told = story.why
    if not told:
        return ["Nobody left word why: it was rolled back by Apache Hudi, or its rollback is long gone."]
    lines = [str(told.get("why", ""))[:2000]]
    if told.get("rule"):
        lines.append(
            f"The rule: {told['rule']}. The rival: {told.get('other')} by {told.get('other_writer') or 'unknown'}."
        )
    return [*lines, f"Told by {told.get('by', 'nobody')}."]
