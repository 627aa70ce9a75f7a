# SPDX-License-Identifier: Apache-2.0
"""What ends a history early."""

from __future__ import annotations


class Violation(BaseException):
    """An invariant does not hold. Not an Exception, so that no code under test can swallow it."""

    def __init__(self, invariant: str, text: str) -> None:
        super().__init__(f"{invariant}: {text}")
        self.invariant, self.text = invariant, text

    def __reduce__(self) -> tuple[type[Violation], tuple[str, str]]:
        return Violation, (self.invariant, self.text)


class Killed(BaseException):
    """The process is dead: thrown through its code, which finds every further call refused."""
