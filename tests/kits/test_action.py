"""The GitHub action's steps on a runner, with an archive that replaces the release's."""

import os
import re
import shlex
import signal
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import psutil
import pytest
import yaml

from mocketmq.settings_sources import options
from tests.clients.recipes.pages import files
from tests.support.patience import HANGING_S

ROOT = Path(__file__).parents[2]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
STEPS = ACTION["runs"]["steps"]


class Runner:
    """A runner's folder, with the files through which steps pass values to the runner."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.archive = folder / "bundle.tar.gz"

    def step(self, number: int, **inputs: str) -> subprocess.CompletedProcess[str]:
        step = STEPS[number]
        assert set(inputs) <= set(step["env"])
        variables = {
            "GITHUB_ACTION_PATH": str(ROOT),
            "RUNNER_TEMP": str(self.folder),
            "GITHUB_PATH": str(self.folder / "path"),
            "GITHUB_OUTPUT": str(self.folder / "output"),
            "PATH": os.pathsep.join([*self.told("path"), os.environ["PATH"]]),
        }
        return subprocess.run(
            ["/bin/bash", "-c", step["run"]],
            check=False,
            env=os.environ | variables | inputs,
            timeout=HANGING_S,
            text=True,
            capture_output=True,
        )

    def told(self, name: str) -> list[str]:
        file = self.folder / name
        return file.read_text().split() if file.exists() else []


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[Runner]:
    """A runner that has installed an archive of this mocketmq."""
    program = tmp_path / "mocketmq-0.1.0-linux-x86_64" / "mocketmq"
    program.parent.mkdir()
    own = shlex.quote(str(Path(sys.executable).with_name("mocketmq")))
    program.write_text(f'#!/bin/sh\nexec {own} "$@"\n')
    program.chmod(0o755)
    runner = Runner(tmp_path)
    with tarfile.open(runner.archive, "w:gz") as archive:
        archive.add(program.parent, program.parent.name)
    done = runner.step(0, BUNDLE=str(runner.archive))
    assert done.returncode == 0, done.stderr
    assert runner.told("path") == [str(tmp_path / "mocketmq")]
    yield runner
    for process in psutil.process_iter(["cmdline"]):
        if str(tmp_path / "mocketmq-ready.json") in (process.info["cmdline"] or []):
            process.send_signal(signal.SIGTERM)
            process.wait(HANGING_S)


def test_a_broker_outlives_the_step_that_starts_it(runner: Runner) -> None:
    done = runner.step(1, CLOCK="manual", OPTIONS="--levels '1s 5s'")
    assert done.returncode == 0, done.stdout
    outputs = dict(line.split("=", 1) for line in runner.told("output"))
    assert set(outputs) == set(ACTION["outputs"])
    with urlopen(f"{outputs['url']}/v1/info") as answer:  # noqa: S310 - ours
        info = yaml.safe_load(answer.read())
    assert (info["clock"], info["levels"]) == ("manual", "1s 5s")
    assert info["doors"]["namesrv"]["address"] == outputs["name-server"]
    assert info["doors"]["grpc"]["address"] == outputs["endpoints"]


def test_a_broker_that_does_not_start_fails_the_step(runner: Runner) -> None:
    done = runner.step(1, CLOCK="fast", OPTIONS="")
    assert done.returncode == 1
    assert "::error::mocketmq did not start: " in done.stdout
    assert "--clock" in done.stdout


def test_inputs_and_outputs_are_those_of_the_steps() -> None:
    text = str(STEPS)
    assert all(f"inputs.{name}" in text for name in ACTION["inputs"])
    for name, output in ACTION["outputs"].items():
        assert output["value"] == f"${{{{ steps.{STEPS[1]['id']}.outputs.{name} }}}}"


def test_recipe_uses_existing_inputs_of_the_action() -> None:
    recipe = files("ci")["action.yml"]
    [step] = [one for one in yaml.safe_load(recipe)["jobs"]["test"]["steps"] if one.get("id") == "rocketmq"]
    assert set(step["with"]) <= set(ACTION["inputs"])
    assert set(re.findall(r"steps\.rocketmq\.outputs\.([\w-]+)", recipe)) <= set(ACTION["outputs"])


def test_service_settings_exist_in_the_broker() -> None:
    known = {option.flag for option in options()}
    github = yaml.safe_load(files("ci")["github-service.yml"])["jobs"]["test"]["services"]["rocketmq"]
    flags = {"--" + name.removeprefix("MOCKETMQ_").lower().replace("_", "-") for name in github["env"]}
    assert flags <= known
    [gitlab] = yaml.safe_load(files("ci")["gitlab-service.yml"])["test"]["services"]
    assert {word for word in gitlab["command"] if word.startswith("--")} <= known
