"""The part of `aiohttp.web` that serves requests, under the same names.

Importing `aiohttp.web` itself brings routing, files and applications along, which nothing here
uses: a MiB of memory in every pod, and some 20 ms of each start.
"""

from aiohttp.helpers import RequestKey as RequestKey
from aiohttp.http import SERVER_SOFTWARE as SERVER_SOFTWARE
from aiohttp.web_protocol import RequestHandler as RequestHandler
from aiohttp.web_protocol import RequestPayloadError as RequestPayloadError
from aiohttp.web_request import BaseRequest as BaseRequest
from aiohttp.web_response import Response as Response
from aiohttp.web_response import StreamResponse as StreamResponse
from aiohttp.web_server import Server as Server
