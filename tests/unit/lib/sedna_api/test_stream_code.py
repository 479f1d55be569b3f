"""The checked-in code of the stream is what tools/scripts/proto makes of the .proto."""

import subprocess
from pathlib import Path

from tests.unit.repository.checkout import ROOT

PACKAGE = ROOT / "lib" / "edge_sidecars" / "sedna_api"


def test_the_code_of_the_stream_is_current(tmp_path: Path) -> None:
    subprocess.run(
        [ROOT / "tools" / "scripts" / "proto", tmp_path], check=True, capture_output=True
    )

    made = {
        path.name: path.read_text() for path in (tmp_path / "edge_sidecars" / "sedna_api").iterdir()
    }
    assert set(made) == {"stream_pb2.py", "stream_pb2.pyi"}
    assert made == {name: (PACKAGE / name).read_text() for name in made}
