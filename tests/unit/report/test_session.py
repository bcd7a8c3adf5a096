"""The Spark session of a report requires a recent Java, and prints nothing."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from mocketmq_report.java import JAVA, JavaError, check_java
from tests.support.process import clean_environment

ADVICE = r": install a Java runtime 17 or newer \(.*\), or let JAVA_HOME name one; only reports need it"
START = """
from mocketmq_report.session import starting
with starting(master="local[1]", chatter={}) as spark:
    spark.context()
"""
SLOW_START = """
import sys
from pathlib import Path
from mocketmq_report import jvm
from mocketmq_report.session import starting
with starting(master="local[1]", is_carrier=True) as spark:
    Path("is-starting").read_text()
    print("what this process says", file=sys.stderr)
    Path("go-on").write_text("now\\n")
    spark.context()
    compilers = jvm.jvm().java.lang.System.getProperty("java.vm.info")
assert "emulated-client" in compilers, compilers  # Java's word for the first compiler alone
"""


def java(home: Path, says: str, code: int = 0) -> Path:
    """Install a fake Java with this answer in a home, and return the directory of its program."""
    made = home / "bin" / "java"
    made.parent.mkdir(parents=True)
    made.write_text(f"#!/bin/sh\necho '{says}' >&2\nexit {code}\n")
    made.chmod(0o755)
    return made.parent


@pytest.fixture(autouse=True)
def no_java_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)


def test_spark_session_counts_rows(spark: SparkSession) -> None:
    assert spark.range(10).count() == 10


@pytest.mark.parametrize(
    "says", ['openjdk version "17"', 'openjdk version "21.0.2" 2024-01-16', 'java version "25-ea" 2025-09-16']
)
def test_supported_java_is_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str) -> None:
    monkeypatch.setenv("PATH", str(java(tmp_path, says)))
    check_java()


@pytest.mark.parametrize(
    ("says", "number"), [('openjdk version "16.0.2"', 16), ('java version "1.8.0_292"', 8)]
)
def test_an_old_java_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str, number: int
) -> None:
    monkeypatch.setenv("PATH", str(java(tmp_path, says)))
    with pytest.raises(JavaError, match=rf"needs Java {JAVA}, and {tmp_path}/bin/java is {number}{ADVICE}"):
        check_java()


def test_missing_java_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(JavaError, match=f"PATH{ADVICE}"):
        check_java()


def test_java_home_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(java(tmp_path / "old", 'openjdk version "11.0.2"')))
    java(tmp_path / "new", 'openjdk version "17.0.15"')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "new"))
    check_java()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "none"))
    with pytest.raises(JavaError, match=f"JAVA_HOME is {tmp_path}/none.*{ADVICE}"):
        check_java()


@pytest.mark.parametrize(("says", "code"), [("a library is missing", 1), ("hello", 0)])
def test_unrunnable_java_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str, code: int
) -> None:
    monkeypatch.setenv("PATH", str(java(tmp_path, says, code)))
    with pytest.raises(JavaError, match=rf"bin/java does not run \(java -version: '{says}'\){ADVICE}"):
        check_java()


def environment() -> dict[str, str]:
    """Remove Spark's settings and the JVM from the environment."""
    names = ("PYSPARK_GATEWAY_PORT", "SPARK_CONF_DIR")
    return {name: value for name, value in clean_environment().items() if name not in names}


@pytest.mark.slow
def test_output_of_spark_is_shown_on_request() -> None:
    done = subprocess.run(
        [sys.executable, "-c", START.format(True)],
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == ""
    assert "WARN" in done.stderr


def test_failed_jvm_start_shows_its_reason(tmp_path: Path) -> None:
    made = java(tmp_path, 'openjdk version "17"') / "java"
    made.write_text(f'{made.read_text()[:-7]}[ "$1" = -version ] || {{ echo no memory >&2; exit 1; }}\n')
    done = subprocess.run(
        [sys.executable, "-c", START.format(False)],
        env=clean_environment() | {"JAVA_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert "no memory\n" in done.stderr
    assert "JAVA_GATEWAY_EXITED" in done.stderr


def test_session_hides_output_of_the_jvm_and_starts_few_services(tmp_path: Path) -> None:
    real = shutil.which("java")
    made = java(tmp_path, "") / "java"
    made.write_text(
        f"""#!/bin/sh
        case "$*" in *launcher.Main*) echo > is-starting; read now < go-on;; esac
        exec '{real}' "$@"
        """
    )
    for name in ("is-starting", "go-on"):
        os.mkfifo(tmp_path / name)
    done = subprocess.run(
        [sys.executable, "-c", SLOW_START],
        cwd=tmp_path,
        env=environment() | {"JAVA_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "what this process says\n")
