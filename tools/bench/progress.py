"""What a benchmark says while it works: lines with the time, on standard error."""

import sys
import time


def say(text: str) -> None:
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} {text}\n")
    sys.stderr.flush()
