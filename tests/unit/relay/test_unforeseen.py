"""What the loop calls fatal, and what of it is a connection that was lost."""

import asyncio
from unittest.mock import Mock

import pytest

from relay_sidecar.app import _unforeseen

FATAL = "Fatal error on SSL protocol"


class Transport(asyncio.Transport):
    def __init__(self, *, is_closing: bool) -> None:
        super().__init__()
        self._is_closing = is_closing

    def is_closing(self) -> bool:
        return self._is_closing


def logged(message: str, error: Exception, *, is_closing: bool) -> int:
    """How many errors."""
    loop = Mock(spec=asyncio.AbstractEventLoop)
    transport = Transport(is_closing=is_closing)
    _unforeseen(loop, {"message": message, "exception": error, "transport": transport})
    return int(loop.default_exception_handler.call_count)


GIVEN_UP = RuntimeError("unable to perform operation on <TCPTransport>; the handler is closed")


@pytest.mark.parametrize(
    ("error", "is_closing"), [(OSError(32, "Broken pipe"), True), (GIVEN_UP, False)]
)
def test_a_connection_that_is_lost_while_tls_writes_is_no_error(
    error: Exception, is_closing: bool
) -> None:
    assert logged(FATAL, error, is_closing=is_closing) == 0


@pytest.mark.parametrize(
    ("message", "error", "is_closing"),
    [
        (FATAL, OSError(32, "Broken pipe"), False),
        (FATAL, RuntimeError("something else"), False),
        ("Task exception was never retrieved", GIVEN_UP, True),
    ],
)
def test_all_else_is_one(message: str, error: Exception, is_closing: bool) -> None:
    assert logged(message, error, is_closing=is_closing) == 1
