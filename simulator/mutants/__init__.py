# SPDX-License-Identifier: Apache-2.0
"""All planted bugs."""

from __future__ import annotations

from simulator.mutants.ahead import OF_AHEAD
from simulator.mutants.asks import OF_ASKS
from simulator.mutants.beside_hudi import BESIDE_HUDI
from simulator.mutants.capture import OF_CAPTURE
from simulator.mutants.clustering import OF_CLUSTERING
from simulator.mutants.ledger import OF_THE_LEDGER
from simulator.mutants.metadata import OF_THE_METADATA_TABLE
from simulator.mutants.overwrites import OF_OVERWRITES
from simulator.mutants.placing import OF_PLACING
from simulator.mutants.planting import Mutant, planted
from simulator.mutants.services import OF_SERVICES
from simulator.mutants.streams import OF_STREAMS
from simulator.mutants.wishes import OF_WISHES

MUTANTS = (
    *OF_THE_LEDGER,
    *OF_ASKS,
    *OF_AHEAD,
    *OF_WISHES,
    *OF_SERVICES,
    *OF_OVERWRITES,
    *OF_STREAMS,
    *OF_CLUSTERING,
    *OF_PLACING,
    *BESIDE_HUDI,
    *OF_CAPTURE,
    *OF_THE_METADATA_TABLE,
)

__all__ = ["MUTANTS", "Mutant", "planted"]
