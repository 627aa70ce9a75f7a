# SPDX-License-Identifier: Apache-2.0
"""An S3 server on loopback with an empty bucket, and the proxy before it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from tests.objects.conftest import BUCKET, SECRET, client, moto, options
from tests.objects.versitygw import NotBuilt, versitygw

from benchmarks.cloud.rig.grounds import S3
from benchmarks.cloud.rig.proxy import running


@contextlib.contextmanager
def s3(*, tail: float, faults: float = 0.0, seed: int = 0) -> Iterator[S3]:
    """versitygw, or moto where it cannot be had: that one takes one request at a time."""
    with contextlib.ExitStack() as stack:
        name = "versitygw"
        try:
            server = stack.enter_context(versitygw("access", SECRET))
        except NotBuilt as error:
            print(f"S3 is moto: there is no versitygw here ({error})")
            server, name = stack.enter_context(moto()), "moto"
        client(server).create_bucket(Bucket=BUCKET)
        flags = ("--tail", str(tail), "--faults", str(faults), "--seed", str(seed))
        proxy = stack.enter_context(running(server, *flags))
        told = {key: value for key, value in options(server).items() if key != "endpoint"}
        yield S3(server, proxy, BUCKET, told, name)
