"""A data directory has one owner, known by its pid, and no owner after that process dies."""

import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mocketmq.errors import StoreLockedError, StoreUnavailableError
from mocketmq.store.lock import LOCK_FILE, DirectoryLock, is_held

HOLD = """
import sys
from pathlib import Path
from mocketmq.store.lock import DirectoryLock
lock = DirectoryLock(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""

ASK = """
import sys
from pathlib import Path
from mocketmq.store.lock import is_held
sys.exit(is_held(Path(sys.argv[1])))
"""


def test_second_owner_is_refused_with_the_pid_of_the_first(tmp_path: Path) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with owner:
        assert owner.stdout
        assert owner.stdout.readline() == b"held\n"
        with pytest.raises(StoreLockedError, match=f"in use by the process with pid {owner.pid}") as refused:
            DirectoryLock(tmp_path)
        assert refused.value.pid == owner.pid
        owner.kill()
    DirectoryLock(tmp_path).close()


def test_the_directory_is_made_and_names_its_owner(tmp_path: Path) -> None:
    directory = tmp_path / "a" / "b"
    lock = DirectoryLock(directory)
    assert (directory / LOCK_FILE).read_text() == f"{os.getpid()}\n"
    lock.close()
    lock.close()


def test_released_lock_can_be_taken_again(tmp_path: Path) -> None:
    (tmp_path / LOCK_FILE).write_text("a longer text than any pid has, left by somebody else\n")
    for _ in range(2):
        DirectoryLock(tmp_path).close()
    assert (tmp_path / LOCK_FILE).read_text() == f"{os.getpid()}\n"


def test_owner_without_a_pid_is_called_another_process(tmp_path: Path) -> None:
    lock = DirectoryLock(tmp_path)
    (tmp_path / LOCK_FILE).write_text("")
    with pytest.raises(StoreLockedError) as refused:
        DirectoryLock(tmp_path)
    assert refused.value.pid is None
    lock.close()


def test_the_next_owner_learns_of_an_orderly_end(tmp_path: Path) -> None:
    for found in (True, True):
        lock = DirectoryLock(tmp_path)
        assert lock.is_settled is found
        lock.close()
    lock = DirectoryLock(tmp_path)
    lock.is_settled = False
    lock.close()
    for _ in range(2):  # a temporary owner, such as an import, reports what it found
        lock = DirectoryLock(tmp_path)
        assert not lock.is_settled
        lock.close()


def test_a_killed_owner_leaves_its_pid(tmp_path: Path) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with owner:
        assert owner.stdout
        owner.stdout.readline()
        owner.kill()
    lock = DirectoryLock(tmp_path)
    assert not lock.is_settled
    lock.close()


def test_failed_start_keeps_the_trace_of_a_killed_owner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    (tmp_path / LOCK_FILE).write_text("4711\n")
    with monkeypatch.context() as full:
        full.setattr(os, "write", refuse)
        full.setattr(os, "pwrite", refuse)
        with pytest.raises(StoreUnavailableError, match="No space left"):
            DirectoryLock(tmp_path)
    lock = DirectoryLock(tmp_path)
    assert not lock.is_settled
    lock.close()


def test_a_directory_that_cannot_be_made_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreUnavailableError, match="--data"):
        DirectoryLock(tmp_path / "file" / "data")


def test_a_query_takes_no_lock(tmp_path: Path) -> None:
    assert not is_held(tmp_path)  # nobody has ever held it
    lock = DirectoryLock(tmp_path)
    assert is_held(tmp_path)
    assert is_held(tmp_path)
    lock.close()
    assert not is_held(tmp_path)
    DirectoryLock(tmp_path).close()


@pytest.mark.parametrize("is_owned", [True, False])
def test_an_owner_is_seen_from_another_container(tmp_path: Path, is_owned: bool) -> None:
    if shutil.which("unshare") is None or os.geteuid() != 0:
        pytest.skip("namespaces of processes need root and util-linux")
    contained = ["unshare", "--pid", "--fork", "--mount-proc"]
    if subprocess.run([*contained, "true"], check=False, capture_output=True).returncode:
        pytest.skip("this root may make no namespaces")
    lock = DirectoryLock(tmp_path)
    if not is_owned:
        lock.close()
    command = [*contained, sys.executable, "-c", ASK, str(tmp_path)]
    assert subprocess.run(command, check=False).returncode == is_owned
    lock.close()


def test_without_queryable_locks_an_owner_is_assumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    DirectoryLock(tmp_path).close()
    monkeypatch.setattr(sys, "platform", "darwin")
    assert is_held(tmp_path)
