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


@pytest.mark.slow
def test_the_archive_is_made_and_used_and_a_damaged_one_is_made_anew(tmp_path: Path) -> None:
    first, said = report(tmp_path)
    assert said == [*PHASES, ARCHIVING]
    (archive,) = (tmp_path / "of Java").iterdir()
    assert archive.stat().st_size > 50_000_000

    loaded = tmp_path / "loaded.txt"
    second, said = report(tmp_path, SPARK_SUBMIT_OPTS=f"-Xlog:class+load=info:file={loaded}")
    assert (second, said) == (first, PHASES)
    assert len(OF_SPARK.findall(loaded.read_text())) > 1000
    assert [*(tmp_path / "of Java").iterdir()] == [archive]

    whole = archive.stat().st_size
    archive.write_bytes(archive.read_bytes()[: whole // 2])  # with such a one, Java does not start
    third, said = report(tmp_path)
    assert (third, said) == (first, [*PHASES, ARCHIVING])
    (anew,) = (tmp_path / "of Java").iterdir()
    assert anew.stat().st_size > 50_000_000


@pytest.mark.slow
def test_a_disk_too_small_for_the_archive_is_told_beside_a_whole_report(tmp_path: Path) -> None:
    directory = tmp_path / "of Java"
    directory.mkdir()
    reports = [report(tmp_path, most_bytes=20_000_000)]
    assert [*directory.iterdir()] == []
    if can_mount():
        with small_filesystem(directory):
            reports.append(report(tmp_path))
            assert [*directory.iterdir()] == []
    whole, said_of_whole = report(tmp_path)
    assert said_of_whole == [*PHASES, ARCHIVING]
    for small, said in reports:
        assert small == whole
        assert said[:-1] == [*PHASES, ARCHIVING]
        assert re.fullmatch(
            rf"there is no class archive in {directory}: Java wrote none, and ended with code -?\d+;"
            " the disk may be full",
            said[-1],
        )


@pytest.mark.slow
def test_ctrl_c_while_the_archive_is_written_leaves_nothing_half_made(tmp_path: Path) -> None:
    with reporting(tmp_path) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if line.rstrip() == ARCHIVING:
                process.send_signal(signal.SIGINT)
        assert process.wait() == 130
    assert [*(tmp_path / "of Java").iterdir()] == []  # where the tests above make an archive
