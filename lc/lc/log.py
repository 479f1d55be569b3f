"""LC's logger, and what its lines are made of."""

import logging

from sidecar.log import fields, setup

__all__ = ["fields", "logger", "setup"]

logger = logging.getLogger("lc")
