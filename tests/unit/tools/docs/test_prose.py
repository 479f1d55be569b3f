"""Manuals and docstrings keep the rules of prose, and each rule finds what it is for."""

import pytest

from tests.unit.repository.checkout import ROOT
from tools.docs.prose import module_problems, pages, problems, rules, sentences
from tools.docs.source_prose import PACKAGES, modules

RULES = rules()
PAGES = pages(ROOT)
MODULES = modules(ROOT)
HEAD = "# A page\n\nFor people who test.\n\n"


@pytest.mark.parametrize("name", sorted(PAGES.keys() - RULES.unfinished))
def test_a_page_keeps_the_rules(name: str) -> None:
    assert list(problems(name, PAGES[name], RULES)) == []


def test_no_page_is_excused_that_is_gone_or_keeps_the_rules() -> None:
    excused = {it: list(problems(it, PAGES[it], RULES)) for it in RULES.unfinished}
    assert [name for name, found in excused.items() if not found] == []


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (f"{'word ' * 41}.", "docs/x.md:5: 41 words in a sentence"),
        ("It is made, was sent and has been read.", "3 passives (is made, was sent, been read)"),
        ("Whoever reads it may do so.", "'Whoever'"),
        ("| a | nobody leads |", "'nobody'"),
        (" ".join(f"{'word ' * 19}." for _ in range(14)), "18.0 words a sentence, more than 16"),
        ("The test `test_x` proves it.", "names the test test_x"),
        ("word " * 2600, "words, more than 2500"),
    ],
)
def test_what_breaks_a_rule_is_found_with_its_line(text: str, what: str) -> None:
    found = list(problems("docs/x.md", HEAD + text + "\n", RULES))
    assert any(what in it for it in found), found


@pytest.mark.parametrize("head", ["# A page\n\nIt begins.\n", "# A page\n\n\nFor people.\n"])
def test_a_page_without_a_reader_is_found(head: str) -> None:
    (found,) = problems("docs/x.md", head, RULES)
    assert "does not name its reader" in found
    assert list(problems("README.md", head, RULES)) == []


def test_code_addresses_and_headings_are_not_prose() -> None:
    text = (
        "# Nobody\n\nA [link to it](nobody.md) and `told nobody` end here. It goes on,\n"
        "and ends. kubelet is lower case.\n\n```sh\nwhoever\n```\n\n- one\n- two\n\n| x | `y` |\n"
    )
    assert [(it.line, it.text) for it in sentences(text)] == [
        (3, "A link to it and Code end here."),
        (3, "It goes on, and ends."),
        (3, "kubelet is lower case."),
        (10, "one"),
        (11, "two"),
        (13, "x"),
        (13, "Code"),
    ]


def test_of_the_changelog_the_newest_release_is_read() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    newest = PAGES["CHANGELOG.md"]
    assert newest in text
    assert text.count("\n## ") > newest.count("\n## ") == 0


@pytest.mark.parametrize("name", sorted(MODULES))
def test_docstrings_and_comments_of_a_module_keep_the_rules(name: str) -> None:
    assert list(module_problems(name, MODULES[name], RULES)) == []


def test_each_component_has_modules() -> None:
    assert {
        it for it in PACKAGES if not any(name.startswith(f"{it}/") for name in MODULES)
    } == set()


@pytest.mark.parametrize(
    ("source", "what"),
    [
        ('def f() -> None:\n    """No stop"""\n', "m.py:2: no full stop after 'No stop'"),
        ('class C:\n    """It will go."""\n', "m.py:2: 'will'"),
        ('class _C:\n    """One.\n\n    Nobody goes.\n    """\n', "m.py:4: 'Nobody'"),
        ("x = 1\n# One.\n# Whoever goes.\n", "m.py:2: 'Whoever'"),
        (f'"""{"word " * 41}."""\n', "m.py:1: 41 words in a sentence"),
    ],
)
def test_what_breaks_a_rule_in_a_module_is_found_with_its_line(source: str, what: str) -> None:
    (found,) = module_problems("m.py", source, RULES)
    assert found.startswith(what)


@pytest.mark.parametrize(
    "source",
    [
        'def _f() -> None:\n    """No stop"""\n',
        'class C:\n    """It has:\n\n        a drawing that nobody reads   as prose\n    """\n',
        'class C:\n    """It has:\n\n' + "    `x`: one two three\n" * 15 + '    """\n',
        "x = 1  # noqa: E501 nobody\n",
        'class C:\n    """Tells whatever it has."""\n',
    ],
)
def test_drawings_lists_directives_and_words_with_a_plain_meaning_in_code_are_free(
    source: str,
) -> None:
    assert list(module_problems("m.py", source, RULES)) == []
