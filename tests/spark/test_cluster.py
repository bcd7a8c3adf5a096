"""The report job in other processes, by spark-submit, and on the cluster of docker-compose.yml."""

import os
import socket
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path
from random import Random
from time import monotonic, sleep
from typing import Any

import msgspec
import pyspark
import pytest
import yaml
from pyspark.sql import SparkSession

from mocketmq_report.job import Job, ReportRunner, run
from mocketmq_report.report import output as forms
from tests.support.ledgers import write_parquet, write_store
from tests.support.patience import HANGING_S
from tests.support.process import clean_environment
from tests.support.spark import Running

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PACKAGES = ("compat/mocketmq_compat", "emulator/mocketmq", "spark/mocketmq_report")
ROWS = 1_500

CLUSTER = """
import sys, time
from functools import cache
from pathlib import Path
from mocketmq_report.job import ReportRunner, Job, run
from mocketmq_report.report.output import json
from mocketmq_report.session import starting
with starting(master="local-cluster[2,1,1024]") as spark:
    while spark.context()._jsc.sc().getExecutorMemoryStatus().size() < 3:  # with the driver
        time.sleep(0.1)
    Path(sys.argv[2]).write_bytes(json(run(ReportRunner(spark), Job([sys.argv[1]]), lambda *_: None)))
"""
KILLING = """
import threading, time
import psutil

def kill():
    while True:
        for each in psutil.Process().children(recursive=True):
            try:
                if any("pyspark.daemon" in word for word in each.cmdline()):
                    executor = each.parent()
                    while "org.apache.spark.executor.CoarseGrainedExecutorBackend" not in executor.cmdline():
                        executor = executor.parent()  # none in the end, if the driver started this worker
                    executor.kill()
                    print("killed", flush=True)
                    return
            except (psutil.Error, AttributeError):
                pass
        time.sleep(0.01)

threading.Thread(target=kill, daemon=True).start()
"""
"""Kills the first executor that starts a Python worker, before the worker has read anything."""


@pytest.fixture(scope="module")
def parquet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("parquet")
    write_parquet(path, ROWS, runs=2)
    return path


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("store")
    write_store(path, ROWS, runs=2)
    return path


@pytest.fixture(scope="module")
def local(spark: SparkSession) -> Callable[[Path], Any]:
    """Return the report that this machine makes of the data."""

    @cache
    def made(data: Path) -> Any:
        return figures(forms.json(run(ReportRunner(Running(spark)), Job([str(data)]), lambda *_: None)))

    return made


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """An environment with this Python's commands first, whose Spark workers do not write into .venv."""
    home = tmp_path / "spark-home"
    home.mkdir()
    for path in Path(pyspark.__file__).parent.iterdir():
        if path.name != "work":
            (home / path.name).symlink_to(path)
    first = Path(sys.executable).parent
    return clean_environment() | {"SPARK_HOME": str(home), "PATH": f"{first}{os.pathsep}{os.environ['PATH']}"}


def figures(report: bytes) -> Any:
    """Return a report without its time."""
    found = msgspec.json.decode(report)
    assert found["lateness"][0]["measured"] > ROWS * 0.9
    del found["header"]["created_wall_us"], found["header"]["title"]
    return found


def finish(command: list[str], environment: Mapping[str, str], where: Path) -> str:
    """Wait for a command, which must succeed, and return its output."""
    done = subprocess.run(
        command, env=environment, cwd=where, capture_output=True, text=True, timeout=HANGING_S, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_killed_executor_does_not_change_the_report(
    local: Callable[[Path], Any], parquet: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    out = tmp_path / "report.json"
    said = finish([sys.executable, "-c", KILLING + CLUSTER, str(parquet), str(out)], environment, tmp_path)
    assert said.startswith("killed\n")
    assert figures(out.read_bytes()) == local(parquet)


def test_spark_submit_runs_the_job(
    local: Callable[[Path], Any], parquet: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    with zipfile.ZipFile(tmp_path / "mocketmq.zip", "w") as archive:
        for package in PACKAGES:
            for path in (ROOT / package).rglob("*.*"):
                archive.write(path, path.relative_to((ROOT / package).parent))
    command = ["spark-submit", "--master", "local[2]", "--py-files", "mocketmq.zip", "--driver-memory", "1g"]
    finish([*command, str(ROOT / "spark/submit.py"), str(parquet), "--out", "out"], environment, tmp_path)
    assert figures((tmp_path / "out/report.json").read_bytes()) == local(parquet)


def test_compose_services_compute_the_same_report(
    local: Callable[[Path], Any], store: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    replaced = {
        "spark-master": "localhost",
        "7077": str(free_port()),
        "/data": str(store),
        "/report": str(tmp_path / "out"),
    }
    works = [tmp_path / "work-1", tmp_path / "work-2"]
    with ExitStack() as stack:
        master = service("spark-master", replaced)
        stack.enter_context(serving(master, "I have been elected leader", environment, tmp_path))
        for work in works:
            worker = service("spark-worker", {**replaced, "/tmp/work": str(work)})  # noqa: S108 - in a container
            stack.enter_context(serving(worker, "Successfully registered with master", environment, tmp_path))
        finish(service("report-on-cluster", replaced), environment, tmp_path)
        end_s = monotonic() + HANGING_S
        while not all(list(work.glob("app-*/*")) for work in works):  # a worker may have hardly begun
            assert monotonic() < end_s, "a worker has started no executor"
            sleep(0.1)
    assert figures((tmp_path / "out/report.json").read_bytes()) == local(store)


def service(name: str, replaced: Mapping[str, str]) -> list[str]:
    """Return the command of a service, adapted to this machine."""
    found = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"][name]
    command = [*found["entrypoint"], *found["command"]]
    for number, text in enumerate(command):
        for there, here in {**replaced, "8080": "0"}.items():  # each service's page may use any port
            text = text.replace(there, here)  # noqa: PLW2901
        command[number] = text
    return command


def free_port() -> int:
    """Return a port below the range that systems pick from, so that nobody gets it before the master."""
    while True:
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("localhost", port := Random().randrange(20_000, 32_000)))
            return port


@contextmanager
def serving(command: list[str], ready: str, environment: Mapping[str, str], where: Path) -> Iterator[None]:
    """Run a process until its stderr shows that it is ready, and stop it on exit."""
    with subprocess.Popen(
        command, env=environment, cwd=where, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr
        deadline = threading.Timer(HANGING_S, process.kill)
        deadline.start()
        said: list[str] = []
        rest = threading.Thread(target=said.extend, args=[process.stderr])  # else its pipe fills up
        try:
            for line in process.stderr:
                said.append(line)
                if ready in line:
                    break
            else:
                pytest.fail(f"{command} did not get ready:\n{''.join(said)}")
            deadline.cancel()
            rest.start()
            yield
        finally:
            deadline.cancel()
            process.terminate()
            if rest.ident is not None:
                rest.join()
