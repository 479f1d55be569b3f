"""The alert rules as an object of the Prometheus operator, made from the file for Prometheus."""

from pathlib import Path
from textwrap import indent

SOURCE = "manifests/monitoring/rules.yaml"
NAME = "manifests/monitoring/operator/prometheusrule.yaml"
_HEAD = f"""# Written by `python -m tools.docs` from {SOURCE}.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: edge-sidecars
spec:
"""


def text(root: Path) -> str:
    return _HEAD + indent((root / SOURCE).read_text(encoding="utf-8"), "  ")
