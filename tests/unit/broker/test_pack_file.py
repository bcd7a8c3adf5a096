"""Files that are no packs, were changed, or are of a later version: each is refused in a sentence."""

import io
import struct
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
import pytest

from mocketmq.broker.packs import pack_file
from mocketmq.broker.packs.pack_file import PackError, read_pack, write_pack
from mocketmq.broker.packs.packed_settings import KEPT, MASK, opened_settings, shown_settings
from mocketmq.settings import Settings
from mocketmq.settings_sources import load_settings, options

MEMBERS = {
    pack_file.STORY: b"a story",
    pack_file.FAILURE: b"a failure",
    pack_file.EVENTS: b'{"text":"sent"}\n',
    pack_file.LEDGER: b"",
    pack_file.SETTINGS: b'{"levels":"1s"}',
    pack_file.SNAPSHOT: b"the snapshot",
}
GOOD = write_pack("test_7", 1, 2, MEMBERS)


def rewritten(change: Callable[[dict[str, bytes]], None], kind: int = zipfile.ZIP_DEFLATED) -> bytes:
    """The good pack with other members, as a ZIP program would write it."""
    with zipfile.ZipFile(io.BytesIO(GOOD)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    change(members)
    return zipped(members, kind)


def zipped(members: Mapping[str, bytes], kind: int = zipfile.ZIP_DEFLATED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", kind) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()


def other_manifest(**fields: object) -> Callable[[dict[str, bytes]], None]:
    def change(members: dict[str, bytes]) -> None:
        manifest = msgspec.json.decode(members[pack_file.MANIFEST])
        members[pack_file.MANIFEST] = msgspec.json.encode({**manifest, **fields})

    return change


def without(name: str) -> Callable[[dict[str, bytes]], None]:
    def change(members: dict[str, bytes]) -> None:
        del members[name]

    return change


def zipped_with(changed: Mapping[str, bytes]) -> bytes:
    return write_pack("test_7", 1, 2, {**MEMBERS, **changed})


def with_declared_size(content: bytes, name: str, size: int) -> bytes:
    """The archive with another uncompressed size of a member in its directory."""
    place = content.rindex(b"PK\1\2", 0, content.rindex(name.encode()))
    return content[: place + 24] + struct.pack("<L", size) + content[place + 28 :]


def bomb(members: dict[str, bytes]) -> None:
    members[pack_file.STORY] = bytes(64 << 20)


HOSTILE = {
    "empty": (b"", "x.mocketmq is not a mocketmq pack: it is not a ZIP archive"),
    "text": (b"hello " * 100, "it is not a ZIP archive"),
    "cut": (GOOD[:-30], "the end of the archive is missing"),
    "other archive": (zipped({"a.txt": b"a"}), "has the member 'a.txt'; allowed: manifest.json, story.txt"),
    "path": (rewritten(lambda one: one.update({"../../etc/passwd": b""})), "it has 8 members"),
    "path alone": (zipped({"../../etc/passwd": b""}), "has the member '../../etc/passwd'"),
    "many members": (zipped({str(number): b"" for number in range(1_000)}), "it has 1000 members"),
    "no manifest": (rewritten(without(pack_file.MANIFEST)), "it has no manifest.json"),
    "no snapshot": (rewritten(without(pack_file.SNAPSHOT)), "it has no state.snapshot"),
    "manifest that is no JSON": (
        rewritten(lambda one: one.update({pack_file.MANIFEST: b"{"})),
        "has a manifest.json that cannot be read",
    ),
    "later format": (
        rewritten(other_manifest(pack=2, version="9.9.9", members=None)),
        "has format 2, of mocketmq 9.9.9; this version reads format 1. Open it with that version, or a newer",
    ),
    "negative clock": (rewritten(other_manifest(now_us=-1)), "has a manifest.json that cannot be read"),
    "changed member": (
        rewritten(lambda one: one.update({pack_file.SNAPSHOT: b"another"})),
        "state.snapshot does not match its digest in manifest.json",
    ),
    "many events": (
        zipped_with({pack_file.EVENTS: b"{}\n" * 1_001}),
        "contains too many events; allowed: up to 1000",
    ),
    "bomb": (rewritten(bomb), "has a member story.txt of 67108864 bytes; allowed: up to 33554432"),
    "lying bomb": (
        with_declared_size(rewritten(bomb), pack_file.STORY, 7),
        "is not a mocketmq pack, or is damaged: Bad CRC-32 for file 'story.txt'",
    ),
    "other compression": (rewritten(lambda _: None, zipfile.ZIP_LZMA), "a compression that packs do not use"),
    "twice": (GOOD.replace(b"ledger.jsonl", b"events.jsonl"), "it contains a member twice"),
}
"""Files, and what the error says of each."""


@pytest.mark.parametrize("name", HOSTILE)
def test_a_file_that_is_no_whole_pack_is_refused(tmp_path: Path, name: str) -> None:
    content, sentence = HOSTILE[name]
    file = tmp_path / "x.mocketmq"
    file.write_bytes(content)
    with pytest.raises(PackError) as error:
        read_pack(file)
    assert sentence in str(error.value)


@pytest.mark.parametrize("place", range(0, len(GOOD), 97))
def test_a_changed_byte_is_found_or_changes_nothing(tmp_path: Path, place: int) -> None:
    file = tmp_path / "x.mocketmq"
    file.write_bytes(GOOD[:place] + bytes([GOOD[place] ^ 0xFF]) + GOOD[place + 1 :])
    try:
        pack = read_pack(file)
    except PackError:
        return
    assert (pack.snapshot, pack.failure, pack.manifest.test) == (b"the snapshot", "a failure", "test_7")


def test_a_pack_that_a_zip_program_wrote_anew_is_read(tmp_path: Path) -> None:
    file = tmp_path / "x.mocketmq"
    for content in (GOOD, rewritten(lambda _: None), rewritten(lambda _: None, zipfile.ZIP_STORED)):
        file.write_bytes(content)
        pack = read_pack(file)
        assert (pack.name, pack.snapshot, pack.events) == ("x.mocketmq", b"the snapshot", [{"text": "sent"}])


def test_a_member_is_inflated_only_up_to_the_size_that_it_names(tmp_path: Path) -> None:
    compressor = zlib.compressobj(1, zlib.DEFLATED, -zlib.MAX_WBITS)
    data = b"".join(compressor.compress(bytes(1 << 20)) for _ in range(64)) + compressor.flush()
    name = pack_file.MANIFEST.encode()
    sizes = struct.pack("<2H2L", 0, 0x21, 0, len(data)) + struct.pack("<LH", 10, len(name))
    local = struct.pack("<4s3H", b"PK\3\4", 20, 0, zipfile.ZIP_DEFLATED) + sizes + b"\0\0" + name + data
    central = struct.pack("<4s4H", b"PK\1\2", 20, 20, 0, zipfile.ZIP_DEFLATED) + sizes + bytes(16) + name
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 1, 1, len(central), len(local), 0)
    file = tmp_path / "x.mocketmq"
    file.write_bytes(local + central + end)
    tracemalloc.start()
    try:
        with pytest.raises(PackError, match="damaged"):
            read_pack(file)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


GIVEN = {
    "levels": "1s 7s",
    "max_wait": "1m30s",
    "max_message_bytes": "2M",
    "server_version": "4.9.7",
    "auto_create_topics": "send",
    "recall_levels": "true",
    "delay_limits": "aliyun5",
    "transaction_timeout": "1.5s",
    "brokers": "2",
}


def test_settings_that_shape_the_broker_come_back_and_all_others_do_not() -> None:
    elsewhere = {"data": "/var/data", "token": "sesame", "clock": "x10", "http_port": "9999", "record": "a"}
    packed = load_settings({**GIVEN, **elsewhere}, {})
    shown = msgspec.json.decode(msgspec.json.encode(shown_settings(packed)))
    opened = opened_settings(shown, "x.mocketmq", 0)
    alike = {name for name in Settings.__struct_fields__ if getattr(opened, name) == getattr(packed, name)}
    assert {*GIVEN} - {"max_wait", "transaction_timeout"} | {"max_wait_us", "transaction_timeout_us"} <= alike
    assert (opened.data, opened.clock, opened.token, opened.record) == (":memory:", "manual", None, None)
    assert (opened.http_port, opened.broker_port, opened.retain_age_us) == (0, 0, 0)


OWN = {
    *("data", "snapshots", "durability", "delay_sync", "delay_quota", "retain_age", "retain_size"),
    *("record", "record_requests", "record_mask"),
    *("host", "http_port", "allowed_hosts", "aliyun_port", "remoting", "namesrv_port", "broker_port"),
    *("grpc", "grpc_port", "advertise", "namesrv_address", "port", "ready_file", "otlp_endpoint"),
    *("token", "access_keys", "security_tokens", "acl", "tls", "tls_cert", "tls_key"),
    *("clock", "lateness_from", "lateness_seed", "log_level"),
}
"""Settings that a broker that is opened from a pack does not take from it."""


def test_it_is_decided_for_every_setting_whether_an_opened_broker_takes_it() -> None:
    assert sorted([*KEPT, *OWN]) == sorted(one.name for one in options())


def test_every_setting_that_is_secret_is_masked() -> None:
    secrets = {"token": "sesame", "access_keys": "me:sesame", "security_tokens": "me:sesame"}
    declared = {name for name, (_, each) in Settings.declared.items() if each.is_secret}
    assert declared == {*secrets}
    shown = shown_settings(load_settings(secrets, {}))
    assert {shown[name] for name in secrets} == {MASK}
    assert b"sesame" not in msgspec.json.encode(shown)


def test_settings_of_a_later_version_are_refused() -> None:
    with pytest.raises(PackError, match=r"x\.mocketmq contains settings that this version does not know"):
        opened_settings({"timed_scheme": "spirals"}, "x.mocketmq", 0)


@pytest.mark.parametrize(
    "tables", ["east", {"name": "east"}, ["east"], [{"name": "e/st"}], [{"name": "a"}] * 2, [{"planet": "b"}]]
)
def test_brokers_that_no_settings_could_declare_are_refused(tables: object) -> None:
    with pytest.raises(PackError, match=r"x\.mocketmq contains settings that this version does not know"):
        opened_settings({"brokers": 2, "declared_brokers": tables}, "x.mocketmq", 0)
