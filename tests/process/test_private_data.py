"""Permissions of the data directory, and who may see which access checks the broker has."""

from pathlib import Path

from tests.support.process import forked_broker


async def test_new_data_directory_is_private_to_its_owner(tmp_path: Path) -> None:
    data = tmp_path / "data"
    async with forked_broker("--data", str(data)):
        assert data.stat().st_mode & 0o777 == 0o700
        assert (data / "mocketmq.pid").stat().st_mode & 0o777 == 0o600


async def test_access_keys_without_token_log_a_warning(tmp_path: Path) -> None:
    async with forked_broker("--access-keys", "key:secret") as broker:
        await broker.logs("the JSON API checks no access keys, only the token: set --token")
    file = tmp_path / "users.yml"
    file.write_text("users: [{username: root, password: secret, userType: Super}]\n")
    async with forked_broker("--acl", str(file)) as broker:
        await broker.logs("the JSON API needs no credentials from this machine: set --token")
    async with forked_broker("--acl", str(file), env={"container": "oci"}) as broker:
        await broker.logs("the JSON API needs no credentials: set --token")
    async with forked_broker("--access-keys", "key:secret", "--token", "secret") as broker:
        broker.terminate()
        await broker.wait()
        assert "set --token" not in broker.stderr
