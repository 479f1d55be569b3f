"""What `edge-sidecars top` is asked for, and how it refuses."""

import sys

import pytest

from edge_sidecars.top import __main__ as program
from edge_sidecars.top.top_command import MAX_COMPONENTS, _components, main


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("4040", "http://127.0.0.1:4040"),
        ("127.0.0.1:4040", "http://127.0.0.1:4040"),
        ("localhost:4040", "http://localhost:4040"),
        ("[::1]:4040", "http://[::1]:4040"),
        ("http://10.0.0.7:10551", "http://10.0.0.7:10551"),
        ("http://edge-a:10551/", "http://edge-a:10551"),
    ],
)
def test_an_address_is_a_port_or_a_host_and_port_or_a_url(text: str, url: str) -> None:
    [found] = _components([text])
    assert (found.address, found.url) == (text, url)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["0"], "is not where a page is"),
        (["99999"], "127.0.0.1:99999"),
        ([":4040"], "is not where a page is"),
        (["unix:/run/e.sock"], "is not where a page is"),
        (["https://127.0.0.1:4040"], "is not where a page is"),
        (["http://a:1/status"], "is not where a page is"),
        (["http://me:secret@a:1"], "is not where a page is"),
        (["somewhere"], "write it like 127.0.0.1:4040"),
        (["4040", "127.0.0.1:4040"], "is given twice"),
        ([str(1000 + it) for it in range(MAX_COMPONENTS + 1)], "name at most 64"),
        (["--web", "--once", "4040"], "--web and --once exclude each other"),
        (["--listen", "127.0.0.1:1", "4040"], "add --web"),
        (["--web", "--listen", "0.0.0.0:1", "4040"], "--listen '0.0.0.0:1'"),
        ([], "ADDRESS"),
    ],
)
def test_bad_input_is_one_line_that_names_it(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments, {}) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("edge-sidecars top: ")
    assert said.err.count("\n") == 1
    assert words in said.err


@pytest.mark.parametrize("arguments", [[], ["tip"], ["--top"]])
def test_the_program_names_its_sub_commands(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["edge-sidecars", *arguments])
    with pytest.raises(SystemExit) as ended:
        program.main()
    assert ended.value.code == 2
    assert "top, completion" in capsys.readouterr().err


def test_without_rich_the_terminal_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in [it for it in sys.modules if it.split(".")[0] == "rich"]:
        monkeypatch.delitem(sys.modules, name)
    for name in ("terminal", "panels", "component_panels"):
        monkeypatch.delitem(sys.modules, f"edge_sidecars.top.{name}", raising=False)
    monkeypatch.setitem(sys.modules, "rich", None)
    assert main(["--once", "4040"], {}) == 2
    assert "install the extra top" in capsys.readouterr().err
