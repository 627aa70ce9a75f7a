# SPDX-License-Identifier: Apache-2.0
"""Every bound, each with its reason: by what it bounds, in a module each; all of them are also found here.

Nothing read from a file is allocated, looped over or recursed into before it was held against one of these and
against the bytes that remain.
"""

from lakebraid.limits.patience import *  # noqa: F403 - a list of them all would only be a second place to add one to
from lakebraid.limits.units import *  # noqa: F403
from lakebraid.limits.untrusted import *  # noqa: F403
from lakebraid.limits.work import *  # noqa: F403
