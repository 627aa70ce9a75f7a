# SPDX-License-Identifier: Apache-2.0
"""How many examples a property test tries that does not say it itself, and which.

The same ones each time, so that a run says something about the change that was made. LAKEBRAID_EXAMPLES=1000 looks for
new ones, as many. How long one takes is not judged: that is a matter of what else the machine does.
"""

import os

from hypothesis import HealthCheck, settings

_WANTED = os.environ.get("LAKEBRAID_EXAMPLES")
settings.register_profile(
    "unit",
    max_examples=int(_WANTED or "30"),
    derandomize=_WANTED is None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("unit")
