# SPDX-License-Identifier: Apache-2.0
"""All planted bugs."""

from __future__ import annotations

from simulator.mutants_beside_hudi import BESIDE_HUDI
from simulator.mutants_of_asks import OF_ASKS
from simulator.mutants_of_capture import OF_CAPTURE
from simulator.mutants_of_clustering import OF_CLUSTERING
from simulator.mutants_of_overwrites import OF_OVERWRITES
from simulator.mutants_of_placing import OF_PLACING
from simulator.mutants_of_services import OF_SERVICES
from simulator.mutants_of_streams import OF_STREAMS
from simulator.mutants_of_the_ledger import OF_THE_LEDGER
from simulator.mutants_of_wishes import OF_WISHES
from simulator.planting import Mutant, planted

MUTANTS = (
    *OF_THE_LEDGER,
    *OF_ASKS,
    *OF_WISHES,
    *OF_SERVICES,
    *OF_OVERWRITES,
    *OF_STREAMS,
    *OF_CLUSTERING,
    *OF_PLACING,
    *BESIDE_HUDI,
    *OF_CAPTURE,
)

__all__ = ["MUTANTS", "Mutant", "planted"]
