"""Hides what other systems lack from mocketmq: ``python -m tests.support.other_system windows serve …``.

The simulation is partial, because the event loop, the paths and the sockets are still Linux's. Libraries are
imported first, because they already support the other systems.
"""

import asyncio
import ctypes
import errno
import fcntl
import os
import shutil
import signal
import sys
import types
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

LIBRARIES = (
    *("aiohttp.web", "aiosqlite", "alembic.command", "click", "cryptography.x509", "grpclib.client", "lark"),
    *("msgspec", "prometheus_client", "rich.console", "rich.progress", "sqlalchemy", "yaml"),
)


def as_on_windows() -> None:
    """Hide POSIX locks, signals and reads at offsets; refuse to remove open files and to open directories."""
    for name in ("O_CLOEXEC", "O_NOFOLLOW", "O_NONBLOCK", "pread", "pwrite", "fdatasync", "fork", "killpg"):
        delattr(os, name)
    for name in ("SIGKILL", "SIGHUP"):
        delattr(signal, name)
    for name in ("fcntl", "grp", "pwd", "resource", "termios", "uvloop"):
        sys.modules[name] = None  # type: ignore[assignment]  # as an import that failed
    sys.modules["msvcrt"] = _msvcrt()
    _wrap(os, "open", _refuse_directories)
    _wrap(os, "fsync", _refuse_readers)
    for name in ("rename", "replace", "unlink"):
        _wrap(os, name, _refuse_open_files)
    _wrap(os, "rename", _refuse_existing)
    for loop in (asyncio.SelectorEventLoop, asyncio.BaseEventLoop):
        loop.add_signal_handler = _not_implemented  # type: ignore[assignment,method-assign]
    ctypes.CDLL = _no_program  # type: ignore[assignment,misc]
    shutil._use_fd_functions = False  # type: ignore[attr-defined]  # it has decided this already
    sys.platform = "win32"


def as_on_macos() -> None:
    """Hide ``syncfs``, ``fdatasync`` and Linux's locks. /proc stays visible, which does not matter here."""
    del os.fdatasync
    for name in ("F_OFD_GETLK", "F_OFD_SETLK"):
        delattr(fcntl, name)
    ctypes.CDLL = _empty_program  # type: ignore[assignment,misc]
    sys.platform = "darwin"


def _wrap(module: types.ModuleType, name: str, check: Callable[..., None]) -> None:
    real = getattr(module, name)

    def checked(*arguments: Any, **named: Any) -> Any:
        check(*arguments)
        return real(*arguments, **named)

    setattr(module, name, checked)


def _refuse_directories(path: Any, *_: Any) -> None:
    if Path(path).is_dir():
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))


def _refuse_readers(fd: int) -> None:
    if fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))


def _refuse_open_files(*paths: Any) -> None:
    opened = {fd.readlink() for fd in Path("/proc/self/fd").iterdir() if os.path.lexists(fd)}
    for path in paths:
        if Path(path).absolute() in opened:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))


def _refuse_existing(_: Any, target: Any) -> None:
    if os.path.lexists(target):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))


def _not_implemented(*_: Any) -> NoReturn:
    raise NotImplementedError


def _no_program(*_: Any, **__: Any) -> NoReturn:
    raise TypeError("bad argument type for built-in operation")


def _empty_program(*_: Any, **__: Any) -> object:
    return object()


def _msvcrt() -> types.ModuleType:
    module = types.ModuleType("msvcrt")

    def locking(fd: int, mode: int, size: int) -> None:
        assert mode == module.LK_NBLCK
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, size, os.lseek(fd, 0, os.SEEK_CUR))

    vars(module).update(LK_NBLCK=2, locking=locking)
    return module


if __name__ == "__main__":
    for library in LIBRARIES:
        import_module(library)
    {"windows": as_on_windows, "macos": as_on_macos}[sys.argv.pop(1)]()
    from mocketmq.__main__ import main

    main()
