"""Pictures are drawn from their text, and those of the repository are up to date."""

import re
import tomllib
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from elector_sidecar.core.timing import Timing
from tests.unit.repository.checkout import DOCUMENTS, ROOT, document
from tools.docs.diagram import DURATIONS, FOLDER, drawn, pictures, titled

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


def test_each_picture_is_in_a_page_with_its_title_as_the_alternative_text() -> None:
    shown = [
        (Path(name).parent / target, text)
        for name in DOCUMENTS
        for text, target in re.findall(r"!\[([^]]+)\]\(([^)]+\.svg)\)", document(name))
    ]
    sources = {it.with_suffix(".svg"): it for it in (ROOT / FOLDER).glob("*.toml")}
    assert {(ROOT / path).resolve() for path, _ in shown} == sources.keys()
    for path, text in shown:
        source = sources[(ROOT / path).resolve()].read_text(encoding="utf-8")
        assert text == titled(tomllib.loads(source)), path


def test_durations_are_those_of_the_flags() -> None:
    box = {"id": "c", "kind": "main", "at": [0, 0], "size": [9, 9], "text": ["{lease}: {validity}"]}
    source = {**_source(), "box": [box], "arrow": [], "title": "until {takeover}"}
    root = ET.fromstring(drawn(source))
    assert [it.text for it in root.iter(f"{SVG}text")] == [f"15 s: {Timing().validity:g} s"]
    assert [it.text for it in root.iter(f"{SVG}title")] == [f"until {DURATIONS['takeover']}"]


def test_a_dark_page_has_its_own_colours() -> None:
    (style,) = (it.text or "" for it in ET.fromstring(drawn(_source())).iter(f"{SVG}style"))
    light, _, dark = style.partition("@media(prefers-color-scheme:dark)")
    colours = re.compile(r"\.(\w+)\{fill:(#\w+)")
    assert dict(colours.findall(light)).keys() == dict(colours.findall(dark)).keys()
    assert not set(colours.findall(light)) & set(colours.findall(dark))


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
