# SPDX-License-Identifier: Apache-2.0
"""The viewer: a table as a picture of its timeline, in one file or served on loopback."""
