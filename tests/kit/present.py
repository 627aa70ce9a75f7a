# SPDX-License-Identifier: Apache-2.0
"""What may be None, in tests that know that it is there."""

from __future__ import annotations

from typing import Never, TypeVar, overload

T = TypeVar("T")


# Two signatures, because mypy takes a union of several types and None apart only by overloads.
@overload
def present(value: None) -> Never: ...
@overload
def present(value: T) -> T: ...
def present(value: T | None) -> T:
    """The value, which is there: a test that gets None instead fails here, not three lines later."""
    assert value is not None
    return value
