"""An address at which no host lives: who connects is neither accepted nor refused.

Guarantee: until `close`, connections time out, and datagrams for the named ports get no answer, as
packets to a machine that is off are lost. The address is this machine's own, so its kernel would
answer: Linux drops the first packet of a connection while as many wait to be accepted as may (here
one, our own), and answers a datagram by an ICMP message unless a socket is bound to its port.
"""

import socket
from collections.abc import Sequence
from contextlib import ExitStack


class SilentAddress:
    """`port`: of TCP; `datagrams`: ports of UDP. Nobody may listen there when it is made."""

    def __init__(self, address: str, port: int, *, datagrams: Sequence[int] = ()) -> None:
        with ExitStack() as stack:
            listener = stack.enter_context(socket.socket())
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((address, port))
            listener.listen(0)
            stack.enter_context(socket.create_connection((address, port)))
            for number in datagrams:
                # What comes is kept until its buffer is full, and dropped then.
                swallows = stack.enter_context(socket.socket(type=socket.SOCK_DGRAM))
                swallows.bind((address, number))
            self._stack = stack.pop_all()

    def close(self) -> None:
        self._stack.close()
