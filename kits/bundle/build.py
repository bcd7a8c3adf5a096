"""Builds the bundle, which is mocketmq with its own Python, for the system that runs the build.

``make bundle`` runs this script in an environment made from ``requirements-bundle.lock``. The script leaves
in ``dist/`` the folder ``mocketmq-VERSION-SYSTEM``, an archive of the folder, the archive's SHA-256 sum and,
except on Windows, a single file that unpacks itself. The folder holds the program, and ``LICENSES.txt`` and
``sbom.cdx.json`` (CycloneDX 1.6) for all components. With ``--folder PATH`` the script makes only the folder,
at that path, for the container image.
"""

import argparse
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution, version
from pathlib import Path
from typing import NamedTuple

from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import DisjunctiveLicense
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from one_file import make_one_file
from packageurl import PackageURL
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
WORK = ROOT / "build" / "bundle"
DIST = ROOT / "dist"
EXTRAS = {"otlp", "relay", "sorted"}
"""Extras in the bundle. ``report`` is too large for it, and agents run ``mcp`` beside an application."""
_SYSTEMS = {"linux": "linux", "darwin": "macos", "win32": "windows"}
_MACHINES = {"amd64": "x86_64"}  # Windows' name and ours


class Part(NamedTuple):
    """A component of the bundle with its own licence; ``terms`` is the licence's name."""

    name: str
    version: str
    terms: str
    texts: list[str]
    url: PackageURL


def main() -> None:
    """Build the bundle, printing each step."""
    machine = platform.machine().lower()
    name = f"mocketmq-{version('mocketmq')}-{_SYSTEMS[sys.platform]}-{_MACHINES.get(machine, machine)}"
    parser = argparse.ArgumentParser(description="Build the bundle.")
    parser.add_argument("--folder", type=Path, help="make this folder, and no archive of it")
    only: Path | None = parser.parse_args().folder
    folder = only or DIST / name
    print(f"Collecting {name} …", flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    spec = Path(__file__).with_name("mocketmq.spec")
    built = subprocess.run(
        [
            *(sys.executable, "-m", "PyInstaller", "--noconfirm", "--log-level", "WARN"),
            *("--distpath", WORK / "dist", "--workpath", WORK / "work", spec),
        ],
        check=False,
        capture_output=True,
        text=True,
    )
    if built.returncode:
        raise SystemExit(f"PyInstaller failed:\n{built.stdout}{built.stderr}")
    folder.parent.mkdir(parents=True, exist_ok=True)
    shutil.move(WORK / "dist" / "mocketmq", folder)

    libraries = json.loads((WORK / "work" / "mocketmq" / "libraries.json").read_text())
    parts = [*python_packages(), python_itself(), *system_packages(libraries)]
    (folder / "LICENSES.txt").write_text(licences(parts), encoding="utf-8")
    (folder / "sbom.cdx.json").write_text(bill_of_materials(parts), encoding="utf-8")

    if only:
        return
    print("Packing it …", flush=True)
    archive = pack(folder)
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    archive.with_name(f"{archive.name}.sha256").write_text(f"{digest}  {archive.name}\n")
    print(f"Built {archive.relative_to(ROOT)}: {archive.stat().st_size / 1e6:.1f} MB", flush=True)
    if sys.platform != "win32":
        make_one_file(archive)


def python_packages() -> Iterator[Part]:
    """List mocketmq and its dependencies, by following the requirements of each package."""
    waiting, seen = [Requirement(f"mocketmq[{','.join(sorted(EXTRAS))}]")], set[str]()
    while waiting:
        wanted = waiting.pop()
        package = distribution(wanted.name)
        key = f"{package.name} {sorted(wanted.extras)}".lower()
        if key in seen:
            continue
        if not any(one.startswith(f"{package.name} ".lower()) for one in seen):
            url = PackageURL("pypi", name=package.name.lower(), version=package.version)
            yield Part(package.name, package.version, _terms(package), _texts(package), url)
        seen.add(key)
        for text in package.requires or []:
            needed = Requirement(text)
            extras = wanted.extras or {""}
            if needed.marker is None or any(needed.marker.evaluate({"extra": extra}) for extra in extras):
                waiting.append(needed)


def _terms(package: Distribution) -> str:
    about = package.metadata
    classified = [
        line.rpartition(" :: ")[2] for line in about.get_all("Classifier", []) if line.startswith("License")
    ]
    return about.get("License-Expression") or ", ".join(classified) or about.get("License") or "see its text"


def _texts(package: Distribution) -> list[str]:
    names = ("license", "licence", "copying", "notice")
    files = [file for file in package.files or [] if file.suffix != ".py"]
    return [file.read_text() for file in files if file.name.lower().startswith(names)]


def python_itself() -> Part:
    """Describe the interpreter and its standard library."""
    places = [Path(sysconfig.get_path("stdlib")), Path(sys.base_prefix)]  # the second on Windows
    [text, *_] = [file.read_text("utf-8") for place in places if (file := place / "LICENSE.txt").exists()]
    number = platform.python_version()
    return Part("Python", number, "PSF-2.0", [text], PackageURL("generic", name="python", version=number))


def system_packages(libraries: list[str]) -> Iterator[Part]:
    """List the system packages whose shared libraries Python needs, where dpkg knows them."""
    if shutil.which("dpkg-query") is None:
        return
    ours = (sys.prefix, sys.base_prefix)
    files = {Path(file).resolve() for file in libraries if not file.startswith(ours)}
    owners = {_dpkg("--search", f"*/{file.name}").partition(":")[0] for file in files}
    for name in sorted(owners):
        number = _dpkg("--show", "--showformat", "${Version}\n", name).splitlines()[0]
        text = Path("/usr/share/doc", name, "copyright").read_text(encoding="utf-8")
        url = PackageURL("deb", "debian", name, number)
        yield Part(name, number, "see its text", [text], url)


def _dpkg(*arguments: str) -> str:
    return subprocess.run(["dpkg-query", *arguments], check=True, capture_output=True, text=True).stdout


def licences(parts: list[Part]) -> str:
    """Join all licences into one text with a heading for each part."""
    rule = "=" * 80
    return "\n\n".join(
        "\n".join([rule, f"{part.name} {part.version}: {part.terms}", rule, *part.texts]) for part in parts
    )


def bill_of_materials(parts: list[Part]) -> str:
    """Make the CycloneDX JSON, checked against its schema."""
    components = [
        Component(
            type=ComponentType.LIBRARY,
            name=part.name,
            version=part.version,
            purl=part.url,
            bom_ref=str(part.url),
            licenses=[DisjunctiveLicense(name=part.terms)],
        )
        for part in parts
    ]
    [ours] = [component for component in components if component.name == "mocketmq"]
    bill = Bom(components=[component for component in components if component is not ours])
    bill.metadata.component = ours
    bill.register_dependency(ours, bill.components)
    text = JsonV1Dot6(bill).output_as_string(indent=1)
    if (error := JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)) is not None:
        raise SystemExit(f"the bill of materials is not valid: {error}")
    return text


def pack(folder: Path) -> Path:
    """Make a reproducible ``.tar.xz``, or on Windows a ``.zip``."""
    if sys.platform == "win32":
        return Path(shutil.make_archive(str(folder), "zip", folder.parent, folder.name))
    archive = folder.with_name(f"{folder.name}.tar.xz")
    made_s = int(os.environ.get("SOURCE_DATE_EPOCH", "0")) or _committed_s()

    def plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = ""
        entry.mtime = made_s
        return entry

    with tarfile.open(archive, "w:xz", preset=9) as tar:
        for file in sorted(folder.rglob("*")):
            tar.add(file, file.relative_to(folder.parent), recursive=False, filter=plain)
    return archive


def _committed_s() -> int:
    command = ("git", "log", "-1", "--format=%ct")
    asked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return int(asked.stdout or 0)


if __name__ == "__main__":
    main()
