"""``mocketmq report --class-archive`` with a real JVM creates, uses and repairs the archive."""

import json
import re
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.crash.disks import can_mount, small_filesystem
from tests.support.process import clean_environment

pytestmark = pytest.mark.slow

LEDGER = Path(__file__).with_name("golden") / "ledger.csv"
PHASES = ["reading", "measuring", "making tables", "writing"]
ARCHIVING = "archiving Java's classes"
HINT = "made in "
OF_SPARK = re.compile(r"org\.apache\.spark\.\S+ source: shared objects file \(top\)")


@contextmanager
def reporting(tmp_path: Path, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """Start a process that makes the report."""
    command = [sys.executable, "-m", "mocketmq", "report", str(LEDGER), "--json"]
    with subprocess.Popen(
        [*command, "--out", str(tmp_path / "report"), "--class-archive", str(tmp_path / "of Java")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Spark's settings would add a directory to the class path, and Java archives no directories
        env=clean_environment() | {"SPARK_CONF_DIR": ""} | environment,
    ) as process:
        yield process


def report(tmp_path: Path, *, most_bytes: int = -1, **environment: str) -> tuple[dict[str, Any], list[str]]:
    """Return the report without varying parts, and its stderr lines without the hint at ``--quick``.

    File sizes can be limited to ``most_bytes``.
    """
    with reporting(tmp_path, **environment) as process:
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (most_bytes, most_bytes))
        document, said = process.communicate()
    assert process.returncode == 0, said
    found = json.loads(document)
    del found["header"]["created_wall_us"]
    return found, [line for line in said.splitlines() if not line.startswith(HINT)]


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """Make a first report, which leaves an archive; return its folder and the report."""
    place = tmp_path_factory.mktemp("first")
    made, said = report(place)
    assert said == [*PHASES, ARCHIVING]
    return place, made


def archive_in(place: Path) -> Path:
    (archive,) = (place / "of Java").iterdir()
    return archive


def test_the_next_report_uses_the_archive(first: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    place, made = first
    archive = archive_in(place)
    assert archive.stat().st_size > 50_000_000
    loaded = tmp_path / "loaded.txt"
    assert report(place, SPARK_SUBMIT_OPTS=f"-Xlog:class+load=info:file={loaded}") == (made, PHASES)
    assert len(OF_SPARK.findall(loaded.read_text())) > 1000
    assert archive_in(place) == archive


def test_a_disk_too_small_for_the_archive_does_not_fail_the_report(
    first: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    directory = tmp_path / "of Java"
    directory.mkdir()
    if can_mount():
        with small_filesystem(directory):
            small, said = report(tmp_path)
            assert [*directory.iterdir()] == []
    else:
        small, said = report(tmp_path, most_bytes=20_000_000)
        assert [*directory.iterdir()] == []
    assert small == first[1]
    assert said[:-1] == [*PHASES, ARCHIVING]
    assert re.fullmatch(
        rf"there is no class archive in {directory}: Java wrote none, and ended with code -?\d+;"
        " the disk may be full",
        said[-1],
    )


def test_damaged_archive_is_rebuilt_even_after_ctrl_c(
    first: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    archive = archive_in(first[0])
    directory = tmp_path / "of Java"
    directory.mkdir()
    whole = archive.read_bytes()
    (directory / archive.name).write_bytes(whole[: len(whole) // 2])  # Java does not start with this
    with reporting(tmp_path) as process:
        assert process.stderr is not None
        said = []
        for line in process.stderr:
            said.append(line.rstrip())
            if said[-1] == ARCHIVING:
                process.send_signal(signal.SIGINT)
        assert process.wait() == 130
    assert said[: len(PHASES) + 1] == [*PHASES, ARCHIVING]
    assert [*directory.iterdir()] == []  # where the first report left an archive
