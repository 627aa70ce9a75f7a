# SPDX-License-Identifier: Apache-2.0
"""Python environments of their own for tests: made once, and kept in the user's cache folder."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path


class EnvironmentMissing(Exception):
    """It cannot be had: tests fail, they are never skipped."""


def kept_environment(name: str, key: str, wanted: Sequence[str], python: str = sys.executable) -> Path:
    """An environment with these packages, made at the first call with this key and kept for later ones.

    A lock file holds other test processes back meanwhile; a half-made environment has no `ready` file and is made anew.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    home = cache / f"{name}-{hashlib.sha256(key.encode()).hexdigest()[:12]}"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / f"{home.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (home / "ready").exists():
            shutil.rmtree(home, ignore_errors=True)
            make_environment(home, wanted, python)
            (home / "ready").write_text("\n".join(wanted))
    return home


def make_environment(home: Path, wanted: Sequence[str], python: str = sys.executable) -> None:
    """An environment, or more packages in one that is there. `python` is a path, or a version such as 3.12."""
    if shutil.which("uv"):
        run("uv", "venv", "--quiet", "--allow-existing", "--python", python, str(home))
        run("uv", "pip", "install", "--quiet", "--python", str(home / "bin" / "python"), *wanted)
    else:
        run(python if "/" in python else f"python{python}", "-m", "venv", str(home))
        run(str(home / "bin" / "python"), "-m", "pip", "install", "--quiet", *wanted)


def run(*command: str) -> None:
    """Runs a command that must end well."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise EnvironmentMissing(
            f"An environment of the tests could not be made: `{' '.join(command)}` ended with {done.returncode}: "
            f"{(done.stderr or done.stdout)[-2000:]}"
        )
