"""YAML with actions of templates in it: where they stand, and what stays text."""

import pytest
import yaml

from tools.release.template_text import Actions, dump


@pytest.mark.parametrize(
    "text",
    [
        "1e3",
        "0x1F",
        "0o17",
        "1_000",
        "+.5",
        "0.2.0",
        "yes",
        "null",
        "~",
        "",
        " a",
        "a: b",
        "x\ny\n",
    ],
)
def test_a_string_stays_one(text: str) -> None:
    written = dump({"key": text})
    assert yaml.safe_load(written) == {"key": text}
    assert yaml.safe_load(written.replace("key: ", "key: !!str ")) == {"key": text}


@pytest.mark.parametrize("text", ["1e3", "0x1F", "0o17", "1_000", "+.5", "0.2.0"])
def test_what_some_parser_takes_for_a_number_is_quoted(text: str) -> None:
    assert dump({"key": text}) == f'key: "{text}"\n'


def test_a_long_line_is_not_folded() -> None:
    assert dump({"key": "word " * 100 + "end"}).count("\n") == 1


def test_an_action_stands_for_a_whole_value() -> None:
    actions = Actions()
    document = {"a": actions.scalar(".A | quote"), "b": [{"c": actions.scalar(".C")}, "d"]}
    assert actions.text(document) == "a: {{ .A | quote }}\nb:\n- c: {{ .C }}\n- d\n"


def test_a_block_is_indented_below_its_key_and_beside_other_items() -> None:
    actions = Actions()
    document = {
        "list": [{"env": actions.block("env"), "more": {"resources": actions.block("toYaml .R")}}],
        "items": [{"name": "x"}, actions.block("items")],
    }
    assert actions.text(document) == (
        "list:\n"
        "- env: {{- env | nindent 4 }}\n"
        "  more:\n"
        "    resources: {{- toYaml .R | nindent 6 }}\n"
        "items:\n"
        "- name: x\n"
        "{{- items | nindent 0 }}\n"
    )


def test_what_looks_like_an_action_is_text() -> None:
    """As the labels in the texts of alerts."""
    text = Actions().text({"summary": "{{ $labels.pod }} of {{`x`}}"})
    assert text == 'summary: \'{{ "{{" }} $labels.pod }} of {{ "{{" }}`x`}}\'\n'


def test_many_actions_are_not_mixed_up() -> None:
    actions = Actions()
    document = [actions.scalar(f".V{it}") for it in range(12)]
    assert actions.text(document) == "".join(f"- {{{{ .V{it} }}}}\n" for it in range(12))
