"""Regular expressions of CRDs, as far as Python and Go (RE2) read them alike.

What RE2 does not know, look-around and references, is refused when the schema is read, as by
kube-apiserver. Matching takes Python's time: schemas are those of the developer.
"""

import re

_NOT_IN_GO = re.compile(r"\(\?<?[=!]|\\[1-9]")
# In Python also before a line feed at the end; as a member of a class it is itself.
_END = re.compile(r"(?<!\\)\$(?![^\[]*\])")


class BadPattern(ValueError):
    """Not an RE2 expression; the message says why."""


class Pattern:
    """A compiled expression; `text` as it was written."""

    __slots__ = ("_compiled", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        if found := _NOT_IN_GO.search(text):
            raise BadPattern(f"invalid or unsupported Perl syntax: `{found[0]}`")
        try:
            self._compiled = re.compile(_END.sub(r"\\Z", text))
        except re.error as error:
            raise BadPattern(str(error)) from error

    def is_found_in(self, value: str) -> bool:
        """Anywhere: a pattern that means all of the text says so by ^ and $."""
        return self._compiled.search(value) is not None
