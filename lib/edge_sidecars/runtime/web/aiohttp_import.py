"""Imports aiohttp without the machine's certificate authorities.

aiohttp reads all of them as it is imported, twice, for requests that name none: 50 ms of each start
and 2 MiB for good, in every pod. Whoever wants them makes a context of its own
(`ssl.create_default_context`); a request without one trusts nobody.
"""

import os
from collections.abc import MutableMapping

# Where OpenSSL finds them: SSL_CTX_set_default_verify_paths(3).
_PLACES = ("SSL_CERT_FILE", "SSL_CERT_DIR")


def import_aiohttp(environ: MutableMapping[str, str]) -> None:
    """Precedes every other import of aiohttp; `environ`: the process' own."""
    before = {name: environ.get(name) for name in _PLACES}
    environ.update(dict.fromkeys(_PLACES, os.devnull))
    try:
        import aiohttp.connector  # noqa: F401
    finally:
        for name, value in before.items():
            if value is None:
                del environ[name]
            else:
                environ[name] = value
