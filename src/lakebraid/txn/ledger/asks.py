# SPDX-License-Identifier: Apache-2.0
"""Asks: wishes that lie beside the entries of the ledger, where every process lists them and may decide them.

The name of an ask says what is wanted, and its bytes are the timeline file to come: the author puts one object, the process
that decides it reads none, and the object itself is the source of the copy. Which asks count is a function of their names and
of the newest state (LEDGER, G1). An ask that could still be decided is never removed (LEDGER, G3).
"""

from __future__ import annotations

import base64
import binascii
import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from lakebraid import limits
from lakebraid.digits import whole_number
from lakebraid.txn.ledger.entries import LEDGER, LedgerState
from lakebraid.txn.ledger.wishes import AHEAD, Wish

_ASK: Final = f"{LEDGER}/a."
"""Sorts after all entries, so that listing what comes after an entry shows it."""
_MARK: Final = f"{LEDGER}/t."
_AHEAD: Final = base64.urlsafe_b64encode(f'["{AHEAD}",'.encode()).decode().rstrip("=")
"""How the text of a wish of that kind begins."""
_DIGITS: Final = 20
_TOKEN: Final = 16


@dataclass(frozen=True, slots=True, order=True)
class Ask:
    """One try to have a wish decided, by the names of its objects."""

    seen: int
    """The entry in whose state its author saw the wish undecided."""
    id: str
    """Of the wish: the same in all tries."""
    token: str
    text: str
    """What is wanted, as it stands in the name."""
    parts: int = 1

    def name(self, part: int = 0) -> str:
        return f"{_ASK}{self.seen:020d}.{self.id}.{self.token}.{self.text}.{part}-{self.parts}"

    @property
    def is_ahead(self) -> bool:
        """Whether its author waits for something else."""
        return self.text.startswith(_AHEAD)

    def wish(self) -> Wish | None:
        """What is wanted; None if it cannot be read."""
        try:
            padded = self.text + "=" * (-len(self.text) % 4)
            kind, params = json.loads(base64.b64decode(padded, b"-_", validate=True))
        except (ValueError, TypeError, RecursionError, binascii.Error):
            return None
        return Wish(kind, params) if isinstance(kind, str) and isinstance(params, list) else None


def wish_text(wish: Wish) -> str | None:
    """How a wish stands in a name; None if it is too long for one."""
    data = json.dumps([wish.kind, wish.params], separators=(",", ":")).encode()
    text = base64.urlsafe_b64encode(data).decode().rstrip("=")
    return text if len(text) <= limits.ASK_WISH_CHARACTERS_MAX else None


def parse_asks(names: Iterable[str]) -> tuple[Ask, ...]:
    """The asks all of whose parts are among these names (LEDGER, G1), the oldest first."""
    found: dict[Ask, set[int]] = defaultdict(set)
    for name in names:
        parsed = _parse(name)
        if parsed is not None:
            found[parsed[0]].add(parsed[1])
    return tuple(sorted(ask for ask, parts in found.items() if len(parts) == ask.parts))


def counting(asks: Sequence[Ask], state: LedgerState, slot: int) -> list[Ask]:
    """The asks that count in a slot, one for each wish (LEDGER, G1): neither decided, nor too old to be remembered.

    An entry decides the first of them, as many as it may (`limits.ASKS_DECIDED_MAX`); the others wait for the next.
    """
    chosen: dict[str, Ask] = {}
    for ask in asks:
        if ask.seen < slot <= ask.seen + limits.ASK_ENTRIES_MAX and ask.id not in state.decided:
            chosen.setdefault(ask.id, ask)
    return list(chosen.values())


def is_dead(ask: Ask, state: LedgerState, number: int) -> bool:
    """Whether no entry after this one, which is applied, can decide the ask (LEDGER, G4)."""
    told = state.decided.get(ask.id)
    return (told is not None and told.number <= number) or ask.seen + limits.ASK_ENTRIES_MAX <= number


def dead_names(names: Iterable[str], state: LedgerState, number: int) -> list[str]:
    """Of these names those of dead asks and of marks that tell nothing any more, once entry `number` is applied."""
    found = []
    for name in names:
        parsed, marked = _parse(name), parse_mark(name)
        if (parsed is not None and is_dead(parsed[0], state, number)) or (marked is not None and marked < number):
            found.append(name)
    return found


def mark_name(number: int) -> str:
    """The object that says that an entry is applied, so that those who wait for it need not look."""
    return f"{_MARK}{number:020d}"


def parse_mark(name: str) -> int | None:
    """Which entry a mark says to be applied; None if it is no mark."""
    digits = name.removeprefix(_MARK)
    return whole_number(digits, _DIGITS) if name.startswith(_MARK) and len(digits) == _DIGITS else None


def _parse(name: str) -> tuple[Ask, int] | None:
    """The ask of which this object is a part; None for anything else that lies there."""
    if not name.startswith(_ASK) or len(name) > limits.ASK_NAME_CHARACTERS_MAX:
        return None
    fields = name.removeprefix(_ASK).split(".")
    if len(fields) != 5:
        return None
    seen, (part, dash, parts) = whole_number(fields[0], _DIGITS), fields[4].partition("-")
    at, count = whole_number(part, 1), whole_number(parts, 1)
    if len(fields[0]) != _DIGITS or seen is None or not dash or at is None or count is None or at >= count:
        return None
    if len(fields[1]) != _TOKEN or len(fields[2]) != _TOKEN:
        return None
    ask = Ask(seen, fields[1], fields[2], fields[3], count)
    return (ask, at) if ask.name(at) == name else None
