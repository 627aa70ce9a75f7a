# SPDX-License-Identifier: Apache-2.0
"""What holds of every store that is reached by HTTP; imported by the tests of each, with its fixture `scripted`."""

from __future__ import annotations

import pytest

from lakebraid.errors import OutcomeUnknown
from lakebraid.storage import ObjectStorage
from tests.objects.conftest import Stub


def test_a_lost_connection_during_a_create_is_unknown_and_not_tried_again(scripted: ObjectStorage, stub: Stub) -> None:
    stub.answer = lambda _method, _path: None
    with pytest.raises(OutcomeUnknown):
        scripted.create("ledger/1", b"x")
    assert len(stub.requests) == 1
