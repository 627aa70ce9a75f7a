# SPDX-License-Identifier: Apache-2.0
"""The processes of a history: writers, readers, services, streams, and jobs of Apache Hudi."""
