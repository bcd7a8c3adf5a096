"""The sources of the broker's program if the tests' environment lacks it."""

import json
import shutil
import sys
from pathlib import Path

import pytest

from mocketmq.testing.finding import find_program
from mocketmq.testing.process import StartError

UV = """\
#!/bin/sh
# Makes an environment of this Python, and notes what is asked.
echo "$@" >>{notes}
case $1 in venv) eval folder=\\${{$#}}; mkdir -p "$folder/bin"; ln -s {python} "$folder/bin/python" ;; esac
"""


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is the only entry of the PATH, in an environment without the broker."""
    path = tmp_path / "bin"
    path.mkdir()
    monkeypatch.setenv("PATH", str(path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("MOCKETMQ_BUNDLE", raising=False)
    monkeypatch.setitem(sys.modules, "mocketmq.own_command", None)
    return path


def program(path: Path, name: str, text: str = "#!/bin/sh\n") -> Path:
    file = path / name
    file.write_text(text)
    file.chmod(0o755)
    return file


def uv(path: Path) -> Path:
    """Install a fake uv, and return the file in which it records its calls."""
    for name in ("mkdir", "ln", "sh"):
        found = shutil.which(name, path="/usr/bin:/bin")
        assert found
        (path / name).symlink_to(found)
    notes = path.parent / "notes"
    program(path, "uv", UV.format(notes=notes, python=sys.executable))
    return notes


def test_the_broker_of_this_environment_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "mocketmq.own_command")
    assert find_program([], "") == [sys.executable, "-P", "-m", "mocketmq"]


def test_the_path_is_looked_through(elsewhere: Path) -> None:
    mocketmq = program(elsewhere, "mocketmq")
    uv(elsewhere)
    assert find_program([], "") == [str(mocketmq)]


def test_nothing_is_installed_unasked(elsewhere: Path) -> None:
    notes = uv(elsewhere)
    with pytest.raises(StartError, match="no mocketmq broker was found: put the command mocketmq on"):
        find_program([], "")
    assert not notes.exists()


def test_an_environment_of_its_own_is_made_once(elsewhere: Path) -> None:
    notes = uv(elsewhere)
    found = find_program(["mocketmq"], "")
    assert found[1:] == ["-P", "-m", "mocketmq"]
    assert Path(found[0]).is_relative_to(elsewhere.parent / "cache" / "mocketmq")
    assert find_program(["mocketmq"], "") == found
    made, installed = notes.read_text().splitlines()
    assert made.startswith("venv --quiet --python >=3.11 ")
    assert installed.endswith(" mocketmq")


def test_a_wheel_that_was_built_again_is_installed_again(elsewhere: Path) -> None:
    program(elsewhere, "mocketmq")  # a requested version precedes an installed program
    notes, dist = uv(elsewhere), elsewhere.parent / "dist"
    dist.mkdir()
    (dist / "mocketmq-1.whl").write_text("old")
    arguments = ["--find-links", str(dist), "mocketmq"]
    first = find_program(arguments, "")
    assert find_program(arguments, "") == first
    (dist / "mocketmq-1.whl").write_text("newer")
    assert find_program(arguments, "") != first
    assert [line for line in notes.read_text().splitlines() if line.endswith(" ".join(arguments))][2:] == []


def test_a_python_is_found_where_uv_is_not(elsewhere: Path) -> None:
    """The error quotes pip, which is asked for a version that no index has."""
    (elsewhere / "python3").symlink_to(sys.executable)
    with pytest.raises(StartError) as error:
        find_program(["--no-index", "mocketmq-nowhere"], "")
    sentence, _, details = str(error.value).partition("\n")
    assert sentence.startswith("the installation that mocketmq_install asks for failed: put the command")
    assert "--mocketmq-url" in sentence
    assert "mocketmq-nowhere" in details


def test_a_container_publishes_the_ports(elsewhere: Path) -> None:
    with pytest.raises(StartError, match="mocketmq_image is 'mocketmq:1', but neither docker nor podman is"):
        find_program([], "mocketmq:1")
    podman = program(elsewhere, "podman")
    engine, *arguments, image = find_program([], "mocketmq:1")
    assert (engine, image, arguments[:3]) == (str(podman), "mocketmq:1", ["run", "--rm", "-i"])
    assert "127.0.0.1:{grpc_port}:{grpc_port}" in arguments


def test_a_bundle_is_a_folder_or_an_archive(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundle = elsewhere.parent / "mocketmq-1-linux"
    bundle.mkdir()
    mocketmq = program(bundle, "mocketmq")
    monkeypatch.setenv("MOCKETMQ_BUNDLE", str(bundle))
    assert find_program([], "") == [str(mocketmq)]
    archive = shutil.make_archive(str(bundle), "xztar", bundle.parent, bundle.name)
    monkeypatch.setenv("MOCKETMQ_BUNDLE", archive)
    [unpacked] = find_program([], "")
    assert Path(unpacked).is_relative_to(elsewhere.parent / "cache" / "mocketmq")
    assert Path(unpacked).read_text() == mocketmq.read_text()
    assert find_program([], "") == [unpacked]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, "which does not exist"),
        ("text", "which cannot be unpacked"),
        ({}, "which has no program mocketmq: name the folder that has it, or the archive"),
    ],
)
def test_a_wrong_bundle_is_refused(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch, content: object, sentence: str
) -> None:
    bundle = elsewhere.parent / "bundle.tar.xz"
    if isinstance(content, str):
        bundle.write_text(content)
    elif content is not None:
        bundle.mkdir()
        (bundle / "other").write_text(json.dumps(content))
    monkeypatch.setenv("MOCKETMQ_BUNDLE", str(bundle))
    with pytest.raises(StartError, match=f"MOCKETMQ_BUNDLE is .*, {sentence}"):
        find_program([], "")
