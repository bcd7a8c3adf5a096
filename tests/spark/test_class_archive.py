"""``mocketmq report --class-archive`` with a real JVM: it makes the archive, uses it, and mends it."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.process import clean_environment

LEDGER = Path(__file__).with_name("golden") / "ledger.csv"
PHASES = ["reading", "measuring", "making tables", "writing"]
OF_SPARK = re.compile(r"org\.apache\.spark\.\S+ source: shared objects file \(top\)")


def report(tmp_path: Path, **environment: str) -> tuple[dict[str, Any], list[str]]:
    """The report, without what is never the same, and its lines on stderr."""
    command = [sys.executable, "-m", "mocketmq", "report", str(LEDGER), "--json"]
    done = subprocess.run(
        [*command, "--out", str(tmp_path / "report"), "--class-archive", str(tmp_path / "of Java")],
        capture_output=True,
        text=True,
        check=False,
        # settings of Spark would be on its class path, of which Java archives no directory
        env=clean_environment() | {"SPARK_CONF_DIR": ""} | environment,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    del found["header"]["created_wall_us"]
    return found, done.stderr.splitlines()


@pytest.mark.slow
def test_the_archive_is_made_and_used_and_a_damaged_one_is_made_anew(tmp_path: Path) -> None:
    first, said = report(tmp_path)
    assert said == [*PHASES, "archiving Java's classes"]
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
    assert (third, said) == (first, [*PHASES, "archiving Java's classes"])
    (anew,) = (tmp_path / "of Java").iterdir()
    assert anew.stat().st_size > 50_000_000
