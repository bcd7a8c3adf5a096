"""A build hook of hatchling: compiles the modules of ``modules.toml`` by mypyc, for this platform and Python,
and the codec, ``codec.c``, which takes the place of a module.

It is off unless ``HATCH_BUILD_HOOK_ENABLE_CUSTOM=1`` is set, so that ``pip install .`` and editable
installations need no compiler. The wheel has the sources as well, which tracebacks quote.

Everything is compiled in ``build/compiled``, and not again while the sources are the same. In the source
folders, Python would import the compiled files instead of sources that were edited since. The plugin
hatch-mypyc compiles there, and knows one source root only.
"""

import contextlib
import os
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

try:
    import fcntl
except ModuleNotFoundError:  # Windows
    fcntl = None

LIST = Path(__file__).with_name("modules.toml")
CODEC = "mocketmq.codec"
LIBRARY = "mocketmq"
"""The name, before ``__mypyc``, of the library with the code of all modules, which are small files."""


def modules(root: Path) -> dict[str, Path]:
    """Return the file of each module to compile, relative to ``root``. Raises ValueError for a wrong name."""
    listed = tomllib.loads(LIST.read_text("utf-8"))
    found: dict[str, Path] = {}
    for name in listed["compiled"]:
        package, _, last = name.rpartition(".")
        files = root.glob(f"*/{package.replace('.', '/')}/{last}.py")
        added = {
            f"{package}.{file.stem}": file.relative_to(root) for file in files if file.stem != "__init__"
        }
        if not added:
            raise ValueError(f"{LIST.name}: there is no module {name}")
        found |= added
    if unknown := listed["interpreted"].keys() - found:
        raise ValueError(f"{LIST.name}: `compiled` does not include {', '.join(unknown)} of `interpreted`")
    return {name: found[name] for name in sorted(found.keys() - listed["interpreted"])}


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Keep other builds from compiling in the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as file:
        if fcntl:
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def compile_modules(root: Path, work: Path) -> Iterator[tuple[Path, str]]:
    """Compile the modules and the codec in ``work``. Yields each file made, with its path in the wheel."""
    # Reading the list needs neither.
    from mypyc.build import mypycify  # noqa: PLC0415
    from setuptools import Distribution, Extension  # noqa: PLC0415
    from setuptools.command.build_ext import build_ext  # noqa: PLC0415

    # Beside the objects, because two processes must not write to one cache: `make check` has another.
    cache = ("--cache-dir", str(work / "mypy"))
    with contextlib.chdir(root):  # to which the settings of mypy refer
        extensions = mypycify(
            ["--config-file", "pyproject.toml", *cache, *map(str, modules(root).values())],
            debug_level="0",
            multi_file=True,
            target_dir=str(work / "c"),
            group_name=LIBRARY,
        )
        extensions.append(
            Extension(
                CODEC,
                [str(LIST.with_name("codec.c").relative_to(root))],
                define_macros=[("Py_LIMITED_API", "0x030B0000")],
                py_limited_api=True,
            )
        )
        command = build_ext(Distribution({"name": "mocketmq", "ext_modules": extensions}))
        command.build_lib = str(work / "lib")
        command.build_temp = str(work / "objects")
        command.parallel = os.cpu_count()
        command.ensure_finalized()
        command.run()
    for extension in extensions:
        yield Path(command.get_ext_fullpath(extension.name)), command.get_ext_filename(extension.name)


class CompiledModules(BuildHookInterface):
    """Adds the compiled modules to a wheel, and names its platform."""

    _building = contextlib.ExitStack()

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile before hatchling collects the files."""
        if version == "editable":
            raise ValueError("an editable installation runs the sources, so it cannot be compiled")
        root = Path(self.root)
        work = root / "build" / "compiled" / str(sys.implementation.cache_tag)
        self._building.enter_context(alone(work))  # until the wheel has the files
        files = {str(file): name for file, name in compile_modules(root, work)}
        build_data.update(pure_python=False, infer_tag=True)
        build_data["force_include"].update(files)

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002
        """Let the next build begin."""
        self._building.close()
