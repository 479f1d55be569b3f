"""Pictures are drawn from their text, and those of the repository are up to date."""

import xml.etree.ElementTree as ET

import pytest

from tests.unit.repository.checkout import ROOT, document
from tools.docs.diagram import drawn, pictures

SVG = "{http://www.w3.org/2000/svg}"


def _source(**arrow: object) -> dict[str, object]:
    def box(id_: str, kind: str, y: int) -> dict[str, object]:
        return {"id": id_, "kind": kind, "at": [10, y], "size": [100, 40], "text": [f"<{id_}>"]}

    one = {"from": ["a", "bottom", 0.5], "to": ["b", "top", 0.25], "text": ["asks"], **arrow}
    boxes = [box("a", "main", 10), box("b", "sidecar", 110)]
    return {"size": [120, 160], "title": "a & b", "box": boxes, "arrow": [one]}


def test_the_pictures_are_those_of_their_sources() -> None:
    made = pictures(ROOT)
    assert made
    for name, text in made.items():
        assert document(name) == text, f"{name}: `python -m tools.docs` draws it"


def test_an_arrow_goes_from_side_to_side() -> None:
    root = ET.fromstring(drawn(_source()))
    (line,) = root.iter(f"{SVG}line")
    assert [line.get(key) for key in ("x1", "y1", "x2", "y2")] == ["60", "50", "35", "110"]
    assert line.get("stroke-dasharray") is None
    assert [it.text for it in root.iter(f"{SVG}text")] == ["<a>", "<b>", "asks"]


def test_an_arrow_may_be_dashed() -> None:
    (line,) = ET.fromstring(drawn(_source(dashed=True))).iter(f"{SVG}line")
    assert line.get("stroke-dasharray")


def test_an_arrow_to_a_box_that_is_not_there_is_refused() -> None:
    with pytest.raises(KeyError, match="nowhere"):
        drawn(_source(to=["nowhere", "top", 0.5]))
