"""Regular expressions of CRDs, in the dialect that kube-apiserver takes: RE2.

Guarantees: matching takes time linear in the text, so that no schema can stop the process; what
RE2 does not know (look-around, references) is refused when the schema is read.
"""

import re2

_OPTIONS = re2.Options()
_OPTIONS.log_errors = False


class BadPattern(ValueError):
    """Not an RE2 expression; the message says why."""


class Pattern:
    """A compiled expression; `text` as it was written."""

    __slots__ = ("_compiled", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        try:
            self._compiled = re2.compile(text, _OPTIONS)
        except re2.error as error:
            raise BadPattern(_said(error)) from error

    def is_found_in(self, value: str) -> bool:
        """Anywhere: a pattern that means all of the text says so by ^ and $."""
        return self._compiled.search(value) is not None


def _said(error: Exception) -> str:
    first = error.args[0] if error.args else ""
    return first.decode("utf-8", "replace") if isinstance(first, bytes) else str(first)
