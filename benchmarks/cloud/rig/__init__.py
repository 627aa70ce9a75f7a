# SPDX-License-Identifier: Apache-2.0
"""The rig: a folder or an S3 server that takes as long as an object store, and notes every request."""
