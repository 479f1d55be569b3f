"""YAML with actions of Go's templates in it, from objects in which placeholders stand for them.

Guarantees: without its actions the text is the objects, whose strings stay strings to every parser
of YAML; what looks like an action in an object's own text is not one. **Pure.**
"""

import re
from typing import Any

import yaml

# In no object; a letter first, so that YAML writes it without quotes.
_TOKEN = "ActionOfTheTemplate{}x"
_NUMBER = _TOKEN.format(r"(\d+)")
# A list's item or a key's value that is a whole block.
_ITEM = re.compile(rf"^( *)- {_NUMBER}$", re.MULTILINE)
_VALUE = re.compile(rf"^( *(?:- )?)([\w-]+:) {_NUMBER}$", re.MULTILINE)
# What a parser of YAML 1.2 may take for a number where one of 1.1 (PyYAML) sees a string, as 1e3.
_LIKE_A_NUMBER = re.compile(r"(?=[-+.\d])[-+]?(0[xob])?[\da-fA-F_.]+([eE][-+]?\d+)?")


class _Dumper(yaml.SafeDumper):
    """Long lines are not folded; texts of several lines stay readable."""


def _represent(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = None
    if "\n" in text:
        style = "|"
    elif _LIKE_A_NUMBER.fullmatch(text):
        style = '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent)


class Actions:
    """Hands out placeholders, and puts the actions in their places."""

    def __init__(self) -> None:
        self._scalars: dict[int, str] = {}
        self._blocks: dict[int, str] = {}
        self._optional: dict[int, str] = {}

    def scalar(self, expression: str) -> str:
        """Stands for one whole value, which `expression` gives as YAML of one line."""
        return self._place(self._scalars, expression)

    def block(self, expression: str) -> str:
        """Stands for the value of a key, or for any number of a list's items: lines of YAML
        without indentation."""
        return self._place(self._blocks, expression)

    def optional(self, expression: str) -> str:
        """Stands for the value of a key, which is left out where `expression` is empty."""
        return self._place(self._optional, expression)

    def text(self, document: Any) -> str:
        """One object as a template."""
        text = dump(document).replace("{{", '{{ "{{" }}')
        text = _ITEM.sub(self._item, text)
        text = _VALUE.sub(self._value, text)
        return re.sub(_NUMBER, lambda it: f"{{{{ {self._scalars[int(it[1])]} }}}}", text)

    def _place(self, home: dict[int, str], expression: str) -> str:
        number = len(self._scalars) + len(self._blocks) + len(self._optional)
        home[number] = expression
        return _TOKEN.format(number)

    def _item(self, found: re.Match[str]) -> str:
        indent, number = len(found[1]), int(found[2])
        if number not in self._blocks:
            return found[0]
        return f"{{{{- {self._blocks[number]} | nindent {indent} }}}}"

    def _value(self, found: re.Match[str]) -> str:
        before, key, number = found[1], found[2], int(found[3])
        indent = len(before) + 2
        if number in self._optional:
            return (
                f"{{{{- with {self._optional[number]} }}}}\n"
                f"{before}{key} {{{{- toYaml . | nindent {indent} }}}}\n"
                "{{- end }}"
            )
        if number not in self._blocks:
            return found[0]
        return f"{before}{key} {{{{- {self._blocks[number]} | nindent {indent} }}}}"


def dump(document: Any) -> str:
    """Block style, in the order of the object."""
    return yaml.dump(document, Dumper=_Dumper, sort_keys=False, width=10**6, allow_unicode=True)
