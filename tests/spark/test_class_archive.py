"""``mocketmq report --class-archive`` with a real JVM: it makes the archive, uses it, and mends it."""

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
OF_SPARK = re.compile(r"org\.apache\.spark\.\S+ source: shared objects file \(top\)")


@contextmanager
def reporting(tmp_path: Path, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """A process that makes the report."""
    command = [sys.executable, "-m", "mocketmq", "report", str(LEDGER), "--json"]
    with subprocess.Popen(
        [*command, "--out", str(tmp_path / "report"), "--class-archive", str(tmp_path / "of Java")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # settings of Spark would be on its class path, of which Java archives no directory
        env=clean_environment() | {"SPARK_CONF_DIR": ""} | environment,
    ) as process:
        yield process


def report(tmp_path: Path, *, most_bytes: int = -1, **environment: str) -> tuple[dict[str, Any], list[str]]:
    """The report, without what is never the same, and its lines on stderr; no file gets longer than given."""
    with reporting(tmp_path, **environment) as process:
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (most_bytes, most_bytes))
        document, said = process.communicate()
    assert process.returncode == 0, said
    found = json.loads(document)
    del found["header"]["created_wall_us"]
    return found, said.splitlines()


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """Where the first report was made, which left an archive there, and that report."""
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


def test_a_disk_too_small_for_the_archive_is_told_beside_a_whole_report(
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


def test_a_damaged_one_is_made_anew_and_ctrl_c_meanwhile_leaves_nothing_half_made(
    first: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    archive = archive_in(first[0])
    directory = tmp_path / "of Java"
    directory.mkdir()
    whole = archive.read_bytes()
    (directory / archive.name).write_bytes(whole[: len(whole) // 2])  # with such a one, Java does not start
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
