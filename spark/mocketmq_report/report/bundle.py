"""The script of a report's page: ``report.js`` with the parts of Vega that it needs.

It is the same in every report and takes seconds to make, so it is kept in the user's cache.
"""

import os
from contextlib import suppress
from functools import cache
from hashlib import sha256
from importlib import metadata, resources
from pathlib import Path


@cache
def javascript() -> str:
    """The script, from the cache if an earlier report left it there."""
    source = resources.files("mocketmq_report.report").joinpath("report.js").read_text("utf-8")
    version = metadata.version("vl-convert-python")
    kept = _cache() / f"report-{sha256(f'{version} {source}'.encode()).hexdigest()[:16]}.js"
    with suppress(OSError, UnicodeDecodeError):
        return kept.read_text("utf-8")
    import vl_convert  # noqa: PLC0415 - only if it is needed

    made: str = vl_convert.javascript_bundle(source)
    with suppress(OSError):  # without a cache it is made each time
        _keep(kept, made)
    return made


def _cache() -> Path:
    root = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111 - there may be no home
    return Path(root, "mocketmq")


def _keep(path: Path, text: str) -> None:
    """Write the file whole or not at all, and remove those of other versions."""
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_name(f"{path.name}.{os.getpid()}")
    scratch.write_text(text, "utf-8")
    scratch.replace(path)
    for other in path.parent.glob("report-*.js"):
        if other != path:
            other.unlink(missing_ok=True)
