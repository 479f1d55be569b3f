"""A reader finds the way through the code: by the picture of CONTRIBUTING, and by docstrings."""

import ast
import re
import tomllib

from tests.unit.repository.checkout import ROOT, document, tracked_files

PICTURE = "docs/images/code.toml"
# Beside the packages: the files of the site that hosts the repository.
HIDDEN = {".ci", ".github"}


def test_each_folder_of_the_top_is_in_the_picture() -> None:
    boxes = tomllib.loads(document(PICTURE))["box"]
    named = set(re.findall(r"[a-z-]+", " ".join(text for box in boxes for text in box["text"])))
    top = {
        path.relative_to(ROOT).parts[0]
        for path in tracked_files()
        if len(path.relative_to(ROOT).parts) > 1
    }
    assert len(top) > 8
    assert top - HIDDEN - named == set()


def test_each_package_says_at_its_head_what_it_owns() -> None:
    heads = {
        str(path.relative_to(ROOT)): ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
        for path in tracked_files()
        if path.name == "__init__.py" and path.relative_to(ROOT).parts[0] != "tests"
    }
    assert len(heads) > 80
    assert [name for name, head in heads.items() if not head] == []
