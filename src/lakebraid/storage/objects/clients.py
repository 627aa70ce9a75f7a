# SPDX-License-Identifier: Apache-2.0
"""The connections to an object store."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import timedelta
from functools import cached_property
from typing import Any, Final

from obstore.exceptions import UnknownConfigurationKeyError
from obstore.store import from_url

from lakebraid.errors import InvalidArgument, StorageError
from lakebraid.limits import STORE_PART_RETRIES_MAX, STORE_RETRY_SECONDS_MAX
from lakebraid.storage.objects.failures import CLIENT_ERRORS

_HTTP_OPTIONS: Final = frozenset(
    {
        "allow_http",
        "allow_invalid_certificates",
        "connect_timeout",
        "http1_only",
        "http2_only",
        "pool_idle_timeout",
        "pool_max_idle_per_host",
        "proxy_ca_certificate",
        "proxy_excludes",
        "proxy_url",
        "read_timeout",
        "root_certificate",
        "timeout",
        "user_agent",
    }
)
"""Options of the connection, not of the store; obstore wants them apart and panics otherwise."""


class _Threads:
    """The client library's own threads, which all its requests of a process need. They do not survive a fork, and the library would
    wait for them for ever; it cannot start others.
    """

    def __init__(self) -> None:
        self._are_running = False
        self._are_lost = False

    def use(self, url: str) -> None:
        """To be called before each request."""
        if self._are_lost:
            raise StorageError(
                f"{url} cannot be reached from this process: it was forked from one that had used an object store, and "
                "connections do not survive that. Nothing was sent and nothing was changed. Start processes with "
                "multiprocessing.get_context('spawn') or 'forkserver', or fork before an object store is used for the "
                "first time (gunicorn: without preload_app).",
                path=url,
            )
        self._are_running = True

    def forked(self) -> None:
        self._are_lost = self._are_lost or self._are_running


_THREADS: Final = _Threads()
os.register_at_fork(after_in_child=_THREADS.forked)


class ObjectClients:
    """Two clients of one bucket, opened when first used: one that sends a request once, and one that goes on by itself where
    a page or a body broke off.

    Trying again is otherwise not left to the library: its first wait is the same for all clients, it sends requests that
    were cut off again as if they had not been sent, and it does not tell.
    """

    has_answered = False
    """Whether the store was ever reached."""

    def __init__(self, url: str, options: Mapping[str, str]) -> None:
        self._url = url
        self._options = options

    @property
    def once(self) -> Any:
        """For all that is not a second try of a read. StorageError in a process that was forked too late."""
        _THREADS.use(self._url)
        return self._once

    @property
    def resuming(self) -> Any:
        """For reads and listings that have failed once."""
        _THREADS.use(self._url)
        return self._resuming

    @cached_property
    def _resuming(self) -> Any:
        return self._open(STORE_PART_RETRIES_MAX)

    @cached_property
    def _once(self) -> Any:
        return self._open(0)

    def _open(self, retries_max: int) -> Any:
        http = {name: value for name, value in self._options.items() if name.lower() in _HTTP_OPTIONS}
        store = {name: value for name, value in self._options.items() if name not in http}
        retry = {"max_retries": retries_max, "retry_timeout": timedelta(seconds=STORE_RETRY_SECONDS_MAX)}
        try:
            return from_url(self._url, config=store, client_options=http or None, retry_config=retry)  # type: ignore[call-overload]
        except CLIENT_ERRORS as error:
            raise self._refused(error) from None
        except BaseException as error:
            # A panic of the client library is no Exception; its text may hold the options.
            if type(error).__name__ == "PanicException":
                raise self._refused(error) from None
            raise

    def _refused(self, error: BaseException) -> InvalidArgument:
        names = ", ".join(sorted(self._options)) or "none"
        reason = "one of them is not known" if isinstance(error, UnknownConfigurationKeyError) else "they do not fit"
        return InvalidArgument(
            f"{self._url} could not be opened with these options: {names}; {reason}, or one is missing. Nothing was "
            "opened. Use obstore's names, such as endpoint, region, access_key_id, account_name.",
            options=sorted(self._options),
        )
