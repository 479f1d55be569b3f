"""What an image takes over of its base. The images themselves: tests/container/test_images.py."""

import pytest

from tools.images.bare_root import _ignored


@pytest.mark.parametrize("folder", ["/bin", "/usr/bin", "/usr/sbin", "/usr/local/bin"])
def test_of_programs_python_alone_is_left(folder: str) -> None:
    names = ["python", "python3", "python3.13", "python3.13-config", "sh", "dash", "apt", "pip3"]
    assert _ignored(folder, names) == {"python3.13-config", "sh", "dash", "apt", "pip3"}


@pytest.mark.parametrize(
    ("folder", "ignored"),
    [
        ("/usr/local/lib/python3.13", {"ensurepip"}),
        ("/usr/local/lib/python3.13/site-packages", {"pip", "pip-25.3.dist-info"}),
        ("/usr/lib/python3/dist-packages", {"pip", "pip-25.3.dist-info"}),
        ("/usr/share", set()),
    ],
)
def test_what_installs_packages_stays_out(folder: str, ignored: set[str]) -> None:
    names = ["ensurepip"] if folder.endswith("python3.13") else ["pip", "pip-25.3.dist-info"]
    assert _ignored(folder, [*names, "pipes.py", "json"]) == ignored


def test_libraries_certificates_and_records_of_packages_stay() -> None:
    assert _ignored("/", ["etc", "usr", "lib", "lib64", "var", "proc", "dev", "build"]) == {
        *("proc", "dev", "build"),
    }
    assert _ignored("/etc", ["ssl", "passwd", "ld.so.cache", "hosts"]) == {"hosts"}
    assert _ignored("/var/lib/dpkg", ["status"]) == set()
    assert _ignored("/usr/lib/x86_64-linux-gnu", ["libc.so.6"]) == set()
