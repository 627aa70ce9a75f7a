# SPDX-License-Identifier: Apache-2.0
"""versitygw, an S3 server that keeps its objects as files, on loopback; built once by Go into the user's cache."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.kit.waiting import PATIENCE_SECONDS

VERSION = "v1.8.0"
MODULE = f"github.com/versity/versitygw/cmd/versitygw@{VERSION}"
BUILD_SECONDS_MAX = 1800
"""Less than a test may take, so that there is time to go on without it."""


class NotBuilt(Exception):
    """Why there is none on this machine, in a few words."""


@contextlib.contextmanager
def versitygw(access: str, secret: str) -> Iterator[str]:
    """The address of a running one without buckets.

    Of its settings only the folder matters: it decides conditional requests under a lock of its own. What it still gets
    wrong is a file whose folder loses its last file at that moment: 409, though nothing is there.
    """
    program = _built()
    port = _free_port()
    keys = {"ROOT_ACCESS_KEY": access, "ROOT_SECRET_KEY": secret}
    with tempfile.TemporaryDirectory() as folder, (Path(folder) / "log").open("wb") as log:
        (Path(folder) / "buckets").mkdir()
        flags = ("--port", f"127.0.0.1:{port}", "--quiet", "--keep-alive", "posix", f"{folder}/buckets")
        process = subprocess.Popen([str(program), *flags], stdout=log, stderr=log, cwd=folder, env=os.environ | keys)
        try:
            _wait_for(port, process, Path(folder) / "log")
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(30)


def expected() -> str:
    """Which server tests will get, as far as that is known before anything is built."""
    if _program().exists():
        return f"versitygw {VERSION}"
    if shutil.which("go"):
        return f"versitygw {VERSION}, to be built; if that fails: moto, with a warning"
    return "moto, for versitygw needs Go"


def _built() -> Path:
    """The program. It is moved here when it is complete; other test processes wait meanwhile."""
    program = _program()
    program.parent.mkdir(parents=True, exist_ok=True)
    with (program.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not program.exists():
            _build(program)
    return program


def _build(program: Path) -> None:
    with tempfile.TemporaryDirectory(dir=program.parent) as bin_folder:
        environment = os.environ | {"GOBIN": bin_folder}
        try:
            command = ["go", "install", MODULE]
            subprocess.run(command, env=environment, check=True, capture_output=True, timeout=BUILD_SECONDS_MAX)
            (Path(bin_folder) / "versitygw").replace(program)
        except subprocess.CalledProcessError as error:
            raise NotBuilt(error.stderr.decode(errors="replace").strip()[-300:]) from None
        except (OSError, subprocess.TimeoutExpired) as error:
            raise NotBuilt(str(error)) from None


def _program() -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / f"lakebraid-versitygw-{VERSION}" / "versitygw"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 10).close()
        except OSError:
            if process.poll() is not None or time.monotonic() > until:
                raise NotBuilt(f"it did not start: {log.read_text(errors='replace')[-300:]}") from None
            time.sleep(0.05)
        else:
            return
