"""Where GM logs."""

import logging

from sidecar.log import fields, setup

__all__ = ["fields", "logger", "setup"]

logger = logging.getLogger("gm")
