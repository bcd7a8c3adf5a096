"""Full disks, restored backups and imports between schemes neither lose nor repeat messages."""

import os
import shutil
from pathlib import Path

import pytest

from mocketmq import BrokerError
from mocketmq.errors import SettingError
from mocketmq.settings import TimedSchemeName
from mocketmq_compat.delay.schemes import SCHEMES
from mocketmq_report.figures import scheme as label
from mocketmq_report.ledger.store_snapshot import take_snapshot
from mocketmq_report.ledger.waiting_files import waiting_files
from tests.crash.conftest import disk
from tests.crash.disks import Disk
from tests.crash.faults import assert_refused_by_the_store, broker, delivered, send
from tests.process.delay_files import answer, mocketmq
from tests.support.brokers import S, rows, running_broker
from tests.support.second_directories import HOUR_MS, in_order_of_delivery, listed, send_in

__all__ = ["disk"]

OTHERS = [(one, other) for one in SCHEMES for other in SCHEMES if one != other]


async def test_a_full_disk_refuses_delayed_messages_until_it_has_room(
    scheme: TimedSchemeName, disk: Disk
) -> None:
    manual = ("--clock", "manual", "--timed-scheme", scheme)
    async with broker(disk.directory, *manual) as (process, client):
        await send(client, "before", delay_ms=60_000)
        disk.fill(process)
        for message_ids in (["meanwhile"], ["all", "or", "none"]):
            with pytest.raises(BrokerError) as error:
                await send(client, *message_ids, delay_ms=60_000, size=20_000)
            assert_refused_by_the_store(error.value, "a delayed message cannot be written: ")
            assert os.strerror(disk.error) in error.value.detail
            assert "no part of it was stored" in error.value.detail
        assert [m["message_id"] for m in (await client.delayed())["messages"]] == ["before"]
        disk.free(process)
        await send(client, "after", delay_ms=1_000)
        process.kill()
        await process.wait()
    async with broker(disk.directory, *manual) as (_, client):
        assert (await client.advance("2m"))["fired"] == 2
        assert await delivered(client) == ["after", "before"]


async def test_a_backup_copied_back_repeats_nothing(scheme: TimedSchemeName, tmp_path: Path) -> None:
    folder, backup = tmp_path / "data" / SCHEMES[scheme].folder, tmp_path / "backup"
    async with running_broker(tmp_path / "data", timed_scheme=scheme) as running:
        for delay_ms in (1_000, 2_000, HOUR_MS, HOUR_MS + 1, 9 * HOUR_MS):
            await send_in(running, delay_ms, str(delay_ms))
    shutil.copytree(folder, backup)
    async with running_broker(tmp_path / "data", timed_scheme=scheme) as running:
        await running.mover.advance(2 * S)
        async with running.timer.lock:
            cancelled, forced = await running.schemes.page(-1, 2)
            await running.schemes.cancel([cancelled])
            await running.schemes.force(forced)
    for pending in ([str(9 * HOUR_MS)], []):  # in the second round, everything has already been delivered
        shutil.rmtree(folder)
        shutil.copytree(backup, folder)
        async with running_broker(tmp_path / "data", timed_scheme=scheme) as running:
            assert await listed(running) == pending
            await running.mover.advance(10 * 3_600 * S)
            expected = ["1000", "2000", str(HOUR_MS + 1), str(9 * HOUR_MS)]
            assert await in_order_of_delivery(running) == expected
            assert running.schemes.pending == 0
            repeats = running.schemes.file_figures().repeats
            assert repeats in (0, 5 - len(pending))  # a scheme may refuse them without counting
    once = "SELECT count(DISTINCT parked_offset) AS once, count(*) AS times FROM deliveries"
    assert rows(tmp_path / "data", once) == [{"once": 4, "times": 4}]


@pytest.mark.parametrize(("old", "new"), OTHERS)
async def test_scheme_takes_over_messages_of_another(
    old: TimedSchemeName, new: TimedSchemeName, tmp_path: Path
) -> None:
    async with running_broker(tmp_path, timed_scheme=old) as running:
        for delay_ms in (1_000, HOUR_MS, HOUR_MS, 9 * HOUR_MS):
            await send_in(running, delay_ms, str(delay_ms))
        await running.mover.advance(S)
        async with running.timer.lock:
            await running.schemes.cancel(await running.schemes.page(-1, 1))
        due_us = [message.due_us for message in await running.schemes.page(-1, 9)]
    with pytest.raises(SettingError, match=f"is '{new}'; allowed: {old}, .*delayed import .* {new}$"):
        async with running_broker(tmp_path, timed_scheme=new):
            pass
    done = answer("import", "--data", tmp_path, "--timed-scheme", new, tmp_path)
    # A quick stop may leave settled messages in the folder; the broker refuses them by their identity.
    assert (done["imported"] in (2, 3, 4), done["already_there"], done["problems"]) == (True, 0, [])
    assert not (tmp_path / SCHEMES[old].folder).exists()
    assert (tmp_path / f"{SCHEMES[old].folder}.taken-over").is_dir()
    assert mocketmq("import", "--data", tmp_path, "--timed-scheme", new, tmp_path).code == 2
    async with running_broker(tmp_path, timed_scheme=new) as running:
        assert [message.due_us for message in await running.schemes.page(-1, 9)] == due_us
        await running.mover.advance(10 * 3_600 * S)
        assert await in_order_of_delivery(running) == ["1000", str(HOUR_MS), str(9 * HOUR_MS)]


@pytest.mark.parametrize(("old", "new"), OTHERS)
async def test_interrupted_takeover_can_be_repeated(
    old: TimedSchemeName, new: TimedSchemeName, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_broker(tmp_path, timed_scheme=old) as running:
        for delay_ms in (1_000, HOUR_MS):
            await send_in(running, delay_ms, str(delay_ms))

    def fail(*_: object) -> None:
        raise OSError(28, os.strerror(28))

    args = ("import", "--data", tmp_path, "--timed-scheme", new, tmp_path)
    with monkeypatch.context() as interrupted:
        interrupted.setattr(Path, "rename", fail)
        stopped = mocketmq(*args)
        assert (stopped.code, "repeat it" in stopped.stderr) == (5, True)
    for name in (old, new):  # both hold all messages, and neither may deliver them alone
        with pytest.raises(SettingError):
            async with running_broker(tmp_path, timed_scheme=name):
                pass
    assert (answer(*args)["imported"], mocketmq(*args).code) == (0, 2)
    async with running_broker(tmp_path, timed_scheme=new) as running:
        await running.mover.advance(3_600 * S)
        assert await in_order_of_delivery(running) == ["1000", str(HOUR_MS)]


async def test_the_dongwo_profile_has_a_separate_scheme(scheme: TimedSchemeName) -> None:
    if scheme == "directories":
        async with running_broker(timed_scheme=scheme, start_deliver_time="dongwo"):
            return
    with pytest.raises(SettingError, match="directories, the only scheme for start_deliver_time dongwo"):
        async with running_broker(timed_scheme=scheme, start_deliver_time="dongwo"):
            pass


async def test_reports_include_pending_messages_without_a_broker(
    scheme: TimedSchemeName, tmp_path: Path
) -> None:
    async with running_broker(tmp_path, timed_scheme=scheme) as running:
        for delay_ms in (1_000, HOUR_MS):
            await send_in(running, delay_ms, str(delay_ms))
        [first, second] = await running.schemes.page(-1, 2)
    found = waiting_files(tmp_path, lambda *_: None)
    assert sorted((one.state, one.parked_offset, one.due_us) for one in found) == [
        ("pending", one.log_offset, one.due_us) for one in (first, second)
    ]
    rows = take_snapshot(tmp_path, lambda *_: None).undelivered.to_pylist()
    names = {row["scheme"] for row in rows}
    assert names == {"directories" if scheme == "directories" else scheme}
    assert {label(name) for name in names} <= {"start-deliver time", f"start-deliver time ({scheme})"}
