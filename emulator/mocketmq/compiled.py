"""Whether this installation has compiled modules, as most artefacts of a release do."""

from importlib.machinery import ExtensionFileLoader, PathFinder
from pathlib import Path

_STORE = Path(__file__).with_name("store")


def is_compiled() -> bool:
    """Whether Python would load the store's writer from what mypyc compiled. All listed modules are alike."""
    spec = PathFinder.find_spec("mocketmq.store.writer", [str(_STORE)])
    return spec is not None and isinstance(spec.loader, ExtensionFileLoader)
