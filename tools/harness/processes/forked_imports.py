"""The first import of the process that `forks` forks from: aiohttp, as the programs import it; what
is there then is out of the way of the forks' garbage collectors."""

import os

from edge_sidecars.runtime.cli.startup import import_aiohttp

import_aiohttp(os.environ)
