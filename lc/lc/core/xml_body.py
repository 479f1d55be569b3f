"""A worker's XML as the object that its JSON would be.

Sedna reads bodies into a Go struct, whose XML names are its fields' (`OwnerName`); JSON's names
(`ownerName`) are taken as well. Guarantees: no document type is taken, so no entity of its own ever
expands; depth and number of elements are bounded.
"""

from xml.parsers import expat

from lc.core.worker_info import UnusableReport

# Deeper, or more, than anything that a worker has to say.
MAX_DEPTH = 32
MAX_ELEMENTS = 10_000
# They are lists, however many there are.
_LISTS = frozenset({"results"})
# They are texts, whatever they look like.
_TEXTS = frozenset({"name", "namespace", "ownerName", "ownerKind", "kind", "status"})


def parse(body: bytes) -> dict[str, object]:
    """Raises `UnusableReport`."""
    reader = _Reader()
    parser = expat.ParserCreate()
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.text
    parser.StartDoctypeDeclHandler = reader.doctype
    try:
        parser.Parse(body, True)
    except expat.ExpatError as error:
        raise UnusableReport(f"the body is no XML: {error}") from error
    found = reader.found
    if not isinstance(found, dict):
        raise UnusableReport("the body has no elements")
    return found


class _Reader:
    def __init__(self) -> None:
        self.found: object = None
        self._open: list[tuple[str, dict[str, object], list[str]]] = []
        self._count = 0

    def doctype(self, name: str, system: str | None, public: str | None, internal: int) -> None:
        raise UnusableReport("the body declares a document type: leave it out")

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self._count += 1
        if len(self._open) >= MAX_DEPTH or self._count > MAX_ELEMENTS:
            raise UnusableReport(f"the body has over {MAX_DEPTH} levels or {MAX_ELEMENTS} elements")
        self._open.append((_json_name(name), {}, []))

    def text(self, text: str) -> None:
        if self._open:
            self._open[-1][2].append(text)

    def end(self, name: str) -> None:
        key, fields, texts = self._open.pop()
        text = "".join(texts).strip()
        is_text = len(self._open) == 1 and key in _TEXTS
        value: object = fields or (text if is_text else _scalar(text))
        if not self._open:
            self.found = value
            return
        parent = self._open[-1][1]
        if key not in parent:
            is_list = len(self._open) == 1 and key in _LISTS
            parent[key] = [value] if is_list else value
            return
        there = parent[key]
        if isinstance(there, list):
            there.append(value)
        else:
            parent[key] = [there, value]


def _json_name(name: str) -> str:
    """Go's `OwnerName` is JSON's `ownerName`, its `URL` is `url`."""
    local = name.rpartition(":")[2]
    return local.lower() if local.isupper() else local[:1].lower() + local[1:]


def _scalar(text: str) -> object:
    """XML has no numbers: what looks like one of JSON's is one."""
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            value = kind(text)
        except ValueError:
            continue
        return value if _is_json_number(text) else text
    return text


def _is_json_number(text: str) -> bool:
    """Neither NaN nor inf nor 1_000, which Python takes."""
    return all(letter in "+-.0123456789eE" for letter in text)
