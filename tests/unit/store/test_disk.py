"""A file system in memory is known by the system's list of mounts."""

import os
from pathlib import Path

import pytest

from mocketmq.store import disk
from mocketmq.store.disk import is_volatile


@pytest.mark.parametrize(
    ("kind", "is_in_memory"), [("tmpfs", True), ("ramfs", True), ("ext4", False), ("overlay", False)]
)
def test_the_type_of_the_mount_decides(
    kind: str, is_in_memory: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = tmp_path.stat().st_dev
    mounts = tmp_path / "mountinfo"
    mounts.write_text(
        "22 27 999999:1 / /proc rw shared:9 - proc proc rw\n"
        f"27 1 {os.major(device)}:{os.minor(device)} / / rw,relatime shared:1 master:2 - {kind} none rw\n"
    )
    monkeypatch.setattr(disk, "_MOUNTS", mounts)
    assert is_volatile(tmp_path) is is_in_memory


def test_where_the_system_does_not_tell_a_disk_is_assumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk, "_MOUNTS", tmp_path / "missing")
    assert not is_volatile(tmp_path)
