"""Whether this installation has compiled modules, as most wheels of a release do."""

from importlib.machinery import PathFinder


def is_compiled() -> bool:
    """Whether mypyc has compiled modules of this installation, all into one library."""
    return PathFinder.find_spec("mocketmq__mypyc") is not None
