"""Who else may read the data directory, and who is told what guards the broker."""

from pathlib import Path

from tests.support.process import forked_broker


async def test_a_new_data_directory_is_its_owners_alone(tmp_path: Path) -> None:
    data = tmp_path / "data"
    async with forked_broker("--data", str(data)):
        assert data.stat().st_mode & 0o777 == 0o700
        assert (data / "mocketmq.pid").stat().st_mode & 0o777 == 0o600


async def test_access_keys_without_a_token_are_warned_of() -> None:
    async with forked_broker("--access-keys", "key:secret") as broker:
        assert "the JSON API asks for no access key, only for a token: set --token" in broker.stderr
    async with forked_broker("--access-keys", "key:secret", "--token", "secret") as broker:
        assert "set --token" not in broker.stderr
