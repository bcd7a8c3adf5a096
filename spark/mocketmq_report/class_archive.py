"""Keeps an archive of the classes of Spark's JVM, so that later JVMs start faster.

The technique is Java's application class-data sharing: a JVM writes its loaded classes to an archive when it
ends, and later JVMs map the archive into memory. An archive fits a single Java version and set of jars; a JVM
ignores any other archive.
"""

import fcntl
import hashlib
import os
import secrets
import shlex
from pathlib import Path
from subprocess import Popen
from typing import Any, Final

_SILENT: Final = ("-Xlog:cds*=off,class+path=off", "-XX:+DisplayVMOutputToStderr")
"""Options that stop Java's messages about an archive on stdout."""


class ClassArchive:
    """The only archive in a directory. If the archive does not fit, a new archive replaces it.

    The file name has a digest of the archive's environment and one of its content, so a damaged archive is
    replaced. Spark runs inside this context. After a success, Spark's JVM writes the new archive, if needed.
    """

    def __init__(self, directory: Path) -> None:
        self.problem: str | None = None
        """The reason why there is no archive, as a sentence."""
        self.jvm: Popen[Any] | None = None
        """Spark's JVM, once it has started."""
        self._directory = directory
        self._key = ""
        self._new: Path | None = None
        self._lock = -1

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None and self._new is not None and self.jvm is not None:
                self._keep(self._new, self.jvm)
        finally:
            self.abandon()

    @property
    def is_made(self) -> bool:
        """Whether the JVM writes a new archive when it ends, which takes seconds."""
        return self._new is not None

    def options(self, java: str) -> str:
        """Return the JVM options to use or make the archive; ``java`` is Java's version text."""
        import pyspark  # noqa: PLC0415 - importing it takes a while

        home = Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent)
        settings = Path(os.environ.get("SPARK_CONF_DIR") or home / "conf")
        if settings.is_dir() and any(settings.iterdir()):
            self.fail(f"Java makes none while {settings}, which is on Spark's class path, contains files")
            return ""
        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._key = _key(java, settings, home / "jars")
            option = self._option()
        except OSError as error:
            self.fail(str(error))
            return ""
        return shlex.join((option, *_SILENT)) if option else ""

    def _option(self) -> str | None:
        kept = self._kept()
        if kept is None:
            if not self._is_locked():
                self.fail("another report is making one")
                return None
            kept = self._kept()  # another process may have made the archive in the meantime
        if kept is not None:
            return f"-XX:SharedArchiveFile={kept.absolute()}"
        for useless in self._directory.glob("mocketmq-*.jsa"):
            useless.unlink()
        new = self._directory.absolute() / f"mocketmq-new-{secrets.token_hex(8)}.jsa"
        new.touch()  # fails now rather than after the work if no file can be written
        new.unlink()
        self._new = new
        return f"-XX:ArchiveClassesAtExit={new}"

    def fail(self, why: str) -> None:
        """Record why there is no archive."""
        self.problem = f"there is no class archive in {self._directory}: {why}"

    def abandon(self) -> None:
        """Remove an incomplete archive."""
        if self._new is not None:
            if self.jvm is not None:
                self.jvm.kill()  # otherwise the JVM would write the archive
                _ended(self.jvm)
            self._new.unlink(missing_ok=True)
            self._new = None
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _keep(self, new: Path, jvm: "Popen[Any]") -> None:
        code = _ended(jvm)
        if code or not new.exists():
            self.fail(f"Java wrote none, and ended with code {code}; the disk may be full")
            return
        try:
            new.replace(self._directory / f"mocketmq-{self._key}-{_digest(new)}.jsa")
        except OSError as error:
            self.fail(str(error))

    def _kept(self) -> Path | None:
        """Return the archive if it fits and is intact."""
        for each in self._directory.glob(f"mocketmq-{self._key}-*.jsa"):
            if each.stem.endswith(_digest(each)):
                return each
        return None

    def _is_locked(self) -> bool:
        """Lock the directory until this process ends. False if another process holds the lock."""
        self._lock = os.open(self._directory, os.O_RDONLY)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def _ended(jvm: "Popen[Any]") -> int:
    """End Spark's JVM by closing its standard input, and return its exit code."""
    if jvm.stdin is not None:
        jvm.stdin.close()
    return jvm.wait()


def _key(java: str, settings: Path, jars: Path) -> str:
    """Compute a digest of Java's version, and of the class path with the times of its files."""
    made_of = [java, str(settings), str(jars)]
    for jar in sorted(jars.iterdir()):
        found = jar.stat()
        made_of.append(f"{jar.name} {found.st_size} {int(found.st_mtime)}")
    return hashlib.blake2b("\n".join(made_of).encode(), digest_size=8).hexdigest()


def _digest(archive: Path) -> str:
    with archive.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=8)).hexdigest()
