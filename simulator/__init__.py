# SPDX-License-Identifier: Apache-2.0
"""One process, one thread, one seed: the product's own code under attack. `python -m simulator --help` shows what it can do."""
