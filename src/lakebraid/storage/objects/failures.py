# SPDX-License-Identifier: Apache-2.0
"""What an object store's refusals mean, and whether a call that failed may still have happened.

The client's own texts hold URLs, request headers and answers of the server, so they are read but never shown.
"""

from __future__ import annotations

import re
from typing import Final

from obstore.exceptions import BaseError, NotSupportedError, PermissionDeniedError, UnauthenticatedError

from lakebraid.errors import AccessDenied, OutcomeUnknown, StorageError

CLIENT_ERRORS: Final = (BaseError, OSError, ValueError, NotImplementedError)
"""All that obstore raises; FileNotFoundError is among the second."""

_STATUS: Final = re.compile(r"status code: (\d{3})")
_CODE: Final = re.compile(r"<Code>([A-Za-z0-9]{1,64})</Code>|\(code: ([A-Za-z0-9]{1,64})\)")
"""In the body of an answer, or in what the client says of one object of a deletion of many."""

# Of the answers "no", these leave open what becomes of the request.
_OPEN_STATUSES: Final = (408, 409, 429)

_THROTTLED: Final = ("SlowDown", "ServiceUnavailable", "ServerBusy", "TooManyRequests")
_PASSING: Final = (*_THROTTLED, "InternalError", "RequestTimeout", "OperationAborted")
"""S3 says some of these in answers with the status 200 (copies, deletions of many objects), and RequestTimeout with 400."""

_FINAL: Final = ("redirect", "InvalidRangeRequest")
"""What the client says of answers that stay as they are: Azure answers a range from the very end of an object with 200."""

_CREDENTIALS_ADDRESS: Final = "169.254.169.254"
"""Where a machine in a cloud asks for its credentials, if none were given."""


def object_failure(error: Exception, action: str, where: str, *, changing: bool) -> StorageError:
    """The error to raise: OutcomeUnknown if the call was to change something and is not certain to have failed."""
    status, code = status_and_code(error)
    reason, advice = _meaning(error, status, code)
    kind = AccessDenied if _is_denied(error, status, code) else StorageError
    if not changing:
        return kind(
            f"{action} {where} failed: {reason}. Nothing was changed. {advice}", path=where, status=status, code=code
        )
    if _certainly_refused(error, status):
        return kind(
            f"{action} {where} was refused: {reason}. Nothing was changed by it. {advice}",
            path=where,
            status=status,
            code=code,
        )
    return OutcomeUnknown(
        f"{action} {where} was not confirmed: {reason}. It may or may not have happened, or happen yet. Look at what "
        f"is there before trying again. {advice}",
        path=where,
        status=status,
        code=code,
    )


def status_and_code(error: Exception) -> tuple[int, str]:
    """The HTTP status (0 if there was no answer) and the store's own word for it, if it has one."""
    text = str(error)
    status, code = _STATUS.search(text), _CODE.search(text)
    return int(status.group(1)) if status else 0, (code.group(1) or code.group(2)) if code else ""


def may_pass(error: Exception) -> bool:
    """Whether the same request may succeed a moment later: the store was busy, or its answer did not come."""
    if isinstance(error, FileNotFoundError | ValueError | NotImplementedError):
        return False
    if any(word in str(error) for word in _FINAL):
        return False
    status, code = status_and_code(error)
    if code in _PASSING or status in _OPEN_STATUSES:
        return True
    return not (code or _certainly_refused(error, status)) if status < 500 else status != 501


def is_throttled(error: Exception) -> bool:
    """Whether the store asks to slow down."""
    status, code = status_and_code(error)
    return status in (429, 503) or code in _THROTTLED


def _is_denied(error: Exception, status: int, code: str) -> bool:
    return (
        code == "AccessDenied"
        or isinstance(error, PermissionDeniedError | UnauthenticatedError)
        or status in (401, 403)
    )


def _certainly_refused(error: Exception, status: int) -> bool:
    if isinstance(error, PermissionDeniedError | UnauthenticatedError | NotSupportedError | NotImplementedError):
        return True
    if _CREDENTIALS_ADDRESS in str(error) or _is_plain_http_refused(error):
        return True
    return status == 501 or (400 <= status < 500 and status not in _OPEN_STATUSES)


def _meaning(error: Exception, status: int, code: str) -> tuple[str, str]:
    text = str(error)
    if isinstance(error, UnauthenticatedError) or status == 401 or _CREDENTIALS_ADDRESS in text:
        return "no valid credentials", "Give credentials in the options or the environment."
    if _is_denied(error, status, code):
        return f"permission was denied{_of(code)}", "Check what these credentials may do on this bucket, and the clock."
    if code in ("NoSuchBucket", "ContainerNotFound"):
        return "the bucket or container does not exist", "Check its name, the region and the endpoint."
    if isinstance(error, NotSupportedError | NotImplementedError) or status == 501:
        return "the store cannot do this", "Commits need conditional writes and copies: enable them, or use another."
    if _is_plain_http_refused(error):
        return "the endpoint could not be used", "For an http:// endpoint set the option allow_http to 'true'."
    if is_throttled(error):
        return "the store asks to slow down", "Try again later or with fewer writers."
    if status or code:
        return (
            f"the store answered {status or 'with an error'}{_of(code)}",
            "If it stays so, ask those who run the store.",
        )
    if "timed out" in text or "Timeout" in text:
        return "there was no answer in time", "Check the network; the option 'timeout' sets how long to wait."
    return "the connection failed or was lost", "Check the endpoint, the network and the region."


def _of(code: str) -> str:
    return f" ({code})" if code else ""


def _is_plain_http_refused(error: Exception) -> bool:
    return "builder error" in str(error)
