"""Build and check what a release uploads: ``make release-check``, or parts of it with ``ARGS="java node"``.

The workflow ``release.yml`` builds with the same parts, so it uploads what passes here. All files are in
``dist``, except the Java kit's files, which are in the modules' ``target``.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from names import ROOT, values

DIST = ROOT / "dist"
JAVA = ROOT / "kits" / "java"
CIBUILDWHEEL = "cibuildwheel==4.3.5"
TWINE = "twine==7.0.0"  # older versions do not know the metadata that hatchling writes
HELM = ROOT / "build" / "helm" / "helm"
"""Helm as ``make test-chart`` builds it where none is installed."""
KINDS = ("", "-sources", "-javadoc")
"""Suffixes of the jars that Maven Central requires."""


class MissingToolError(Exception):
    """A part needs a tool that is not installed."""


def run(*command: str | Path, cwd: Path = ROOT, to: Path | None = None) -> None:
    """Run a command, which must succeed, and write its output to ``to``."""
    if shutil.which(command[0]) is None:
        raise MissingToolError(f"{command[0]} is not installed")
    done = subprocess.run(command, check=False, cwd=cwd, stdout=subprocess.PIPE if to else None)
    if done.returncode:
        raise SystemExit(f"failed with exit code {done.returncode}: {' '.join(map(str, command))}")
    if to:
        to.write_bytes(done.stdout)


def emptied(name: str) -> Path:
    """Empty and return a folder of ``dist`` for files whose names show neither kind nor language."""
    shutil.rmtree(DIST / name, ignore_errors=True)
    (DIST / name).mkdir(parents=True)
    return DIST / name


def names() -> None:
    """The version and the names are the same everywhere."""
    run(sys.executable, ROOT / "kits/release/names.py", "--check")


def notes() -> None:
    """The release notes; with a date, on the tag of a release."""
    DIST.mkdir(exist_ok=True)
    dated = ["--dated"] * (os.environ.get("GITHUB_REF_TYPE") == "tag")
    run(sys.executable, ROOT / "kits/release/notes.py", *dated, to=DIST / "notes.md")


def python() -> None:
    """Wheels and sdists, as the package index will look at them."""
    run("make", "--no-print-directory", "dist", "build/lock/bin/uv")
    files = [
        *DIST.glob(f"*-{values()['version']}-py3-none-any.whl"),
        *DIST.glob(f"*-{values()['version']}.tar.gz"),
    ]
    run(ROOT / "build/lock/bin/uv", "tool", "run", "--no-config", TWINE, "check", "--strict", *files)


def wheels() -> None:
    """Compiled wheels for this system, by each Python, from which brokers start."""
    if sys.platform == "linux" and shutil.which("docker") is None:
        raise MissingToolError("docker is not installed")
    run("pipx", "run", CIBUILDWHEEL, "--output-dir", DIST)


def bundle() -> None:
    """Build the bundle for this system, and check that a broker starts from it."""
    run("make", "--no-print-directory", "bundle")
    run(sys.executable, ROOT / "kits/bundle/smoke.py")


def java() -> None:
    """The Java kit with sources and documentation; it needs a bundle for Linux on x86-64 in ``dist``."""
    run(sys.executable, JAVA / "bundle_resources.py")
    run(
        "mvn",
        "--batch-mode",
        "--quiet",
        "--file",
        JAVA / "pom.xml",
        "--activate-profiles",
        "release",
        "verify",
    )
    for pom in JAVA.glob("*/pom.xml"):
        module = pom.parent
        for kind in KINDS:
            jar = module / "target" / f"{module.name}-{values()['version']}{kind}.jar"
            if not jar.exists():
                raise SystemExit(f"{jar.relative_to(ROOT)} was not built")


def go() -> None:
    """The Go kit, which a tag in the repository publishes."""
    run("go", "vet", "./...", cwd=ROOT / "kits" / "go")


def node() -> None:
    """The Node kit as npm uploads it."""
    run("npm", "pack", "--silent", "--pack-destination", emptied("npm"), cwd=ROOT / "kits" / "node")


def chart() -> None:
    """The Helm chart as a registry takes it."""
    helm = shutil.which("helm") or HELM
    if not Path(helm).exists():
        raise MissingToolError("helm is not installed, nor built by make test-chart")
    run(helm, "lint", "--strict", ROOT / "charts" / "mocketmq")
    run(helm, "package", ROOT / "charts" / "mocketmq", "--destination", emptied("chart"))


PARTS: tuple[Callable[[], None], ...] = (names, notes, python, wheels, bundle, java, go, node, chart)


def main(wanted: list[str]) -> None:
    """Check the parts, all by default, and report at the end which parts were not checked."""
    if unknown := set(wanted) - {part.__name__ for part in PARTS}:
        raise SystemExit(
            f"no parts: {', '.join(unknown)}; there are {', '.join(part.__name__ for part in PARTS)}"
        )
    missing = []
    for part in PARTS:
        if not wanted or part.__name__ in wanted:
            print(f"── {part.__name__}: {part.__doc__}", flush=True)
            try:
                part()
            except MissingToolError as error:
                missing.append(f"{part.__name__} ({error})")
    if missing and wanted:
        raise SystemExit(f"not checked: {', '.join(missing)}")
    print(f"checked{', but not ' if missing else ''}{', '.join(missing)}")


if __name__ == "__main__":
    main(sys.argv[1:])
