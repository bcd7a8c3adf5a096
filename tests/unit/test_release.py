"""Requirements of a release: a single version, consistent names, and pinned workflows."""

import re
import shutil
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import yaml

from mocketmq import __version__

ROOT = Path(__file__).parents[2]
POM = {"pom": "http://maven.apache.org/POM/4.0.0"}
WORKFLOWS: dict[str, Any] = {
    file.stem: yaml.safe_load(file.read_text("utf-8")) for file in (ROOT / ".github/workflows").glob("*.yml")
}
BUILDS = {"ci", "version", "python", "wheels", "bundles", "kits"}
"""Jobs of a release that upload nothing."""


def loaded(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Load a script of ``kits/release``."""
    monkeypatch.syspath_prepend(ROOT / "kits/release")
    spec = spec_from_file_location(name, ROOT / "kits/release" / f"{name}.py")
    assert spec
    assert spec.loader
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return loaded("names", monkeypatch)


def test_version_and_names_are_the_same_everywhere() -> None:
    check = [sys.executable, str(ROOT / "kits/release/names.py"), "--check"]
    done = subprocess.run(check, check=False, text=True, capture_output=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_every_place_exists(names: ModuleType) -> None:
    found = set()
    for place in names.PLACES:
        groups = [
            match.groupdict()
            for file in names.files_of(place)
            for match in re.finditer(place.pattern, file.read_text("utf-8"))
        ]
        assert groups, place.pattern
        found |= {name for group in groups for name in group if group[name]}
    assert found >= names.values().keys(), "a name stands nowhere"


def test_a_new_version_and_new_names_are_written_everywhere(
    names: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    about = Path("emulator/mocketmq/__init__.py")
    for file in {file for place in names.PLACES for file in names.files_of(place)} | {ROOT / about}:
        copy = tmp_path / file.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, copy)
    text = (tmp_path / about).read_text("utf-8")
    (tmp_path / about).write_text(text.replace(f'__version__ = "{__version__}"', '__version__ = "9.8.7"'))
    (tmp_path / "names.toml").write_text(
        'repository = "github.com/acme/queue"\nmaven_group = "com.acme"\nnpm = "@acme/queue"\n'
        'pypi = "acme-queue"\npypi_client = "acme-queue-client"\n'
        'image = "registry.acme.com/queue"\ncharts = "registry.acme.com/charts"\n'
    )
    monkeypatch.setattr(names, "ROOT", tmp_path)
    monkeypatch.setattr(names, "NAMES", tmp_path / "names.toml")
    assert {each.name for each in names.differences()} >= {"version", "maven_group", "npm", "action"}
    names.write()
    assert list(names.differences()) == []
    recipe = (tmp_path / "docs/recipes/ci.md").read_text("utf-8")
    assert "uses: acme/queue@v9.8.7" in recipe
    assert "uses: actions/checkout@v4" in recipe


def test_the_notes_of_a_version_are_its_part_of_the_changelog(monkeypatch: pytest.MonkeyPatch) -> None:
    notes = loaded("notes", monkeypatch).notes
    changelog = "# Changelog\n\n## 0.2.0 – unreleased\n\n- new\n\n## 0.1.0 – 2026-01-31\n\n- first\n"
    assert notes(changelog, "0.1.0", dated=True) == "- first"
    assert notes(changelog, "0.2.0", dated=False) == "- new"
    for version in ("0.2.0", "0.3.0"):
        with pytest.raises(ValueError, match=re.escape(f"## {version} – ")):
            notes(changelog, version, dated=True)
    assert notes((ROOT / "CHANGELOG.md").read_text("utf-8"), __version__, dated=False)


def test_maven_central_finds_in_the_poms_what_it_asks_for() -> None:
    parent = ET.parse(ROOT / "kits/java/pom.xml").getroot()  # noqa: S314 - our own
    for path in ("url", "licenses/license/url", "developers/developer/name", "scm/url", "scm/connection"):
        assert parent.findtext("/".join(f"pom:{part}" for part in path.split("/")), None, POM), path
    inherits = "child.project.url.inherit.append.path"
    assert parent.get(inherits) == "false"
    modules = [each.text for each in parent.findall("pom:modules/pom:module", POM)]
    assert modules
    for module in modules:
        pom = ET.parse(ROOT / "kits/java" / str(module) / "pom.xml").getroot()  # noqa: S314
        assert pom.findtext("pom:artifactId", None, POM) == module
        for name in ("name", "description"):
            assert pom.findtext(f"pom:{name}", None, POM), f"{module} has no {name}"


@pytest.mark.parametrize("name", sorted(WORKFLOWS))
def test_workflows_name_one_version_of_each_action(name: str) -> None:
    jobs = WORKFLOWS[name]["jobs"].values()
    uses = [step["uses"] for job in jobs for step in job.get("steps", []) if "uses" in step]
    assert uses
    for action in uses:
        assert re.fullmatch(r"[\w/-]+@([0-9a-f]{40}|v\d+\.\d+\.\d+)", action), action


def test_ci_runs_what_every_change_must_pass() -> None:
    assert {"run": ".ci/run"} in WORKFLOWS["ci"]["jobs"]["all"]["steps"]
    assert WORKFLOWS["release"]["jobs"]["ci"] == {"uses": "./.github/workflows/ci.yml"}


def test_nothing_is_uploaded_before_everything_is_built_and_tested() -> None:
    jobs = WORKFLOWS["release"]["jobs"]
    needs = {
        name: [*([job["needs"]] if isinstance(job.get("needs"), str) else job.get("needs", []))]
        for name, job in jobs.items()
    }

    def all_before(name: str) -> set[str]:
        return {name}.union(*(all_before(before) for before in needs[name]))

    for name, job in jobs.items():
        if name not in BUILDS:
            assert all_before(name) >= BUILDS, name
            run = WORKFLOWS["site"]["jobs"]["publish"] if name == "site" else job
            assert run["environment"] == "release"
        else:
            assert "permissions" not in job, "what builds may only read"


def test_the_release_builds_by_the_parts_that_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = {part.__name__ for part in loaded("check", monkeypatch).PARTS}
    runs = re.findall(
        r"kits/release/check\.py (.+)", (ROOT / ".github/workflows/release.yml").read_text("utf-8")
    )
    built = {part for run in runs for part in run.split()}
    assert built == parts - {"bundle"}, "bundles are built without make"


def test_bundles_are_built_with_compiled_modules() -> None:
    steps = WORKFLOWS["release"]["jobs"]["bundles"]["steps"]
    [build] = [step for step in steps if "kits/bundle/build.py" in step.get("run", "")]
    assert build["env"] == {"HATCH_BUILD_HOOK_ENABLE_CUSTOM": "1"}
    assert "kits/bundle/smoke.py" in build["run"], "it fails if they are not"


def test_bundles_have_the_names_that_the_action_asks_for() -> None:
    matrix = WORKFLOWS["release"]["jobs"]["bundles"]["strategy"]["matrix"]["include"]
    systems = {each["system"].partition("-")[0] for each in matrix}
    script = (ROOT / "kits/action/install.sh").read_text("utf-8")
    assert systems == set(re.findall(r"system=(\w+)", script))
