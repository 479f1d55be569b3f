"""The number of this release, which `--version`, status documents, user agents and the wheel have.

The only place that has it: hatchling reads it here (`[tool.hatch.version]` in pyproject.toml).
"""

VERSION = "0.3.0"
