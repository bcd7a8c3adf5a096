"""A class archive is created completely or not at all, and only one is kept. A shell plays the JVM."""

import shlex
import subprocess
from pathlib import Path

import pytest

from mocketmq_report.class_archive import ClassArchive

JAVA = 'openjdk version "17.0.15"'
WRITES = 'cat; printf classes > "$0"'  # once its standard input is closed


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path / "none"))


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "class archive"


def option(archive: ClassArchive, java: str = JAVA) -> tuple[str, Path]:
    """Return the JVM's option and its file."""
    name, file = shlex.split(archive.options(java))[0].split("=")
    return name, Path(file)


def make(archive: ClassArchive, script: str = WRITES, java: str = JAVA) -> Path:
    """Request an archive, and return the path to which the JVM was told to write."""
    with archive:
        name, file = option(archive, java)
        assert (name, archive.is_made) == ("-XX:ArchiveClassesAtExit", True)
        archive.jvm = subprocess.Popen(["/bin/sh", "-c", script, str(file)], stdin=subprocess.PIPE)
    assert archive.jvm.returncode is not None
    return file


def test_archive_is_made_and_reused(place: Path) -> None:
    make(made := ClassArchive(place))
    (kept,) = place.iterdir()
    used = ClassArchive(place)
    with used:
        assert option(used) == ("-XX:SharedArchiveFile", kept)
    assert (made.problem, used.problem, used.is_made, [*place.iterdir()]) == (None, None, False, [kept])
    assert kept.read_text() == "classes"


def test_a_damaged_archive_is_rebuilt(place: Path) -> None:
    make(ClassArchive(place))
    (kept,) = place.iterdir()
    kept.write_text("classe")
    make(ClassArchive(place))
    assert ([*place.iterdir()], kept.read_text()) == ([kept], "classes")


def test_an_archive_of_another_java_is_replaced_and_other_files_stay(place: Path) -> None:
    make(ClassArchive(place))
    (place / "mocketmq-new-0123456789abcdef.jsa").write_text("of a report that was killed")
    (place / "notes").write_text("somebody's")
    (old,) = place.glob("mocketmq-????????????????-*.jsa")
    make(ClassArchive(place), java='openjdk version "21.0.2"')
    kept, notes = sorted(place.iterdir())
    assert (notes.name, kept == old, kept.name.startswith("mocketmq-new")) == ("notes", False, False)


def test_concurrent_reports_run_without_an_archive_in_progress(place: Path) -> None:
    first, second = ClassArchive(place), ClassArchive(place)
    with first:
        assert option(first)[0] == "-XX:ArchiveClassesAtExit"
        with second:
            assert (second.options(JAVA), second.is_made) == ("", False)
        assert second.problem == f"there is no class archive in {place}: another report is making one"
    make(ClassArchive(place))


def test_missing_archive_after_a_run_is_reported(place: Path) -> None:
    for script, code in (('cat; printf clas > "$0"; exit 1', 1), ("cat", 0)):
        make(archive := ClassArchive(place), script)
        why = f"Java wrote none, and ended with code {code}; the disk may be full"
        assert archive.problem == f"there is no class archive in {place}: {why}"
        assert not [*place.iterdir()]


def test_failed_report_leaves_no_archive(place: Path) -> None:
    archive = ClassArchive(place)
    with pytest.raises(ZeroDivisionError), archive:
        _, file = option(archive)
        archive.jvm = subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE)
        file.write_text("clas")
        raise ZeroDivisionError
    assert archive.jvm is not None and archive.jvm.returncode == -9
    assert (archive.problem, [*place.iterdir()]) == (None, [])
    make(ClassArchive(place))


def test_an_unusable_path_is_reported(place: Path) -> None:
    place.write_text("a file")
    archive = ClassArchive(place)
    with archive:
        assert archive.options(JAVA) == ""
    assert archive.problem == f"there is no class archive in {place}: [Errno 17] File exists: '{place}'"


def test_settings_on_the_class_path_are_reported(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path / "conf"))
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-defaults.conf").touch()
    archive = ClassArchive(place)
    with archive:
        assert archive.options(JAVA) == ""
    why = f"Java makes none while {tmp_path}/conf, which is on Spark's class path, contains files"
    assert archive.problem == f"there is no class archive in {place}: {why}"
    assert not place.exists()
