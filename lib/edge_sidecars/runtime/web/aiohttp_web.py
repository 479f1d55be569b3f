"""The part of `aiohttp.web` that serves requests, under the same names.

Importing `aiohttp.web` itself brings routing, files and applications along, which nothing here
uses: a MiB of memory in every pod, and some 20 ms of each start.
"""

from aiohttp.helpers import RequestKey
from aiohttp.web_protocol import RequestHandler, RequestPayloadError
from aiohttp.web_request import BaseRequest
from aiohttp.web_response import Response, StreamResponse
from aiohttp.web_server import Server

__all__ = [
    "BaseRequest",
    "RequestHandler",
    "RequestKey",
    "RequestPayloadError",
    "Response",
    "Server",
    "StreamResponse",
]
