"""What `node doctor` prints of what it found, and its exit status.

Guarantee: "nothing would fail" is said only where all was seen.
"""

import json
from collections.abc import Sequence
from typing import Final

from relay_node.doctor.finding import Finding

GOOD: Final = "nothing would fail"
UNSEEN: Final = "nothing was found that would fail, but not all could be seen"
FAILS_STATUS, UNKNOWN_STATUS = 1, 3


def exit_status(found: Sequence[Finding]) -> int:
    verdicts = {finding.verdict for finding in found}
    if "fails" in verdicts:
        return FAILS_STATUS
    return UNKNOWN_STATUS if verdicts else 0


def as_text(found: Sequence[Finding], notes: Sequence[str]) -> str:
    lines = [*(f"note: {note}" for note in notes), *map(str, found)]
    last = {0: [GOOD], UNKNOWN_STATUS: [UNSEEN], FAILS_STATUS: []}[exit_status(found)]
    return "\n".join([*lines, *last])


def as_json(found: Sequence[Finding], notes: Sequence[str]) -> str:
    document = {
        "wouldFail": {0: False, FAILS_STATUS: True, UNKNOWN_STATUS: None}[exit_status(found)],
        "findings": [finding.document() for finding in found],
        "notes": list(notes),
    }
    return json.dumps(document, indent=2)
