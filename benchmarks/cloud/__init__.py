# SPDX-License-Identifier: Apache-2.0
"""lakebraid as on an object store: injected latencies, a real S3 server behind a slow proxy, a model of many writers."""
