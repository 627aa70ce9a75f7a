# SPDX-License-Identifier: Apache-2.0
"""One process, one thread, one seed: the product's own code under attack. See docs/explanation/simulator.md."""
