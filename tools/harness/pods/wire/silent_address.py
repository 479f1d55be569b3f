"""An address at which no host lives: who connects is neither accepted nor refused.

Guarantee: until `close`, connections time out, as packets to a machine that is off are lost. Linux
drops the first packet of a connection while as many wait to be accepted as may: here one, our own.
"""

import socket


class SilentAddress:
    """Nobody may listen there when it is made."""

    def __init__(self, address: str, port: int) -> None:
        self._listener = socket.socket()
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._listener.bind((address, port))
        self._listener.listen(0)
        self._waiting = socket.create_connection((address, port))

    def close(self) -> None:
        self._waiting.close()
        self._listener.close()
