# SPDX-License-Identifier: Apache-2.0
"""How many examples a property test tries that does not say it itself. LAKEBRAID_EXAMPLES=1000 tries more."""

import os

from hypothesis import settings

settings.register_profile("unit", max_examples=int(os.environ.get("LAKEBRAID_EXAMPLES", "30")))
settings.load_profile("unit")
