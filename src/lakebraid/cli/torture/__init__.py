# SPDX-License-Identifier: Apache-2.0
"""`lakebraid torture`: real processes, killed and stopped."""
