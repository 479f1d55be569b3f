"""Where the relay logs."""

import logging

from sidecar.log import Sparing, fields, setup

__all__ = ["fields", "logger", "setup", "sparing"]

logger = logging.getLogger("relay")
# One of this process: what is wrong with upstream is so for all who ask it.
sparing = Sparing()
