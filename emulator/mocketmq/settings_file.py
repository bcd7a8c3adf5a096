"""The TOML file of settings."""

from pathlib import Path
from typing import Any, Final, NamedTuple

from mocketmq.errors import SettingError

_MAX_BYTES: Final = 16 << 20


class SettingsFile(NamedTuple):
    """The text of the TOML file, and the path by which errors name it."""

    path: str
    text: str

    @classmethod
    def read(cls, path: Path) -> "SettingsFile":
        """Read a file of up to 16 MB. Raises SettingError."""
        try:
            with path.open("rb") as opened:
                content = opened.read(_MAX_BYTES + 1)
            if len(content) > _MAX_BYTES:
                raise ValueError(f"the file has more than {_MAX_BYTES >> 20} MB")
            return cls(str(path), content.decode())
        except (OSError, ValueError) as error:
            raise _unreadable(str(path), error) from None

    def parsed(self) -> dict[str, Any]:
        """The keys and tables of the file. Raises SettingError."""
        if not self.text:
            return {}
        import tomllib  # noqa: PLC0415 - most brokers have no file

        try:
            return tomllib.loads(self.text)
        except (ValueError, RecursionError) as error:
            raise _unreadable(self.path, error) from None

    def checked_tables(self, name: str, tables: object) -> list[dict[str, Any]]:
        """Return what was parsed as ``[[name]]``. Raises SettingError unless it is an array of tables."""
        if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
            raise SettingError(name, tables, f"[[{name}]] tables{self.given_by(name)}")
        return tables

    def place_of(self, name: str) -> str:
        """The file, the line and the column of a setting, such as ``topics[0].perm``."""
        # Imported only after a mistake, as the module compiles long patterns.
        from mocketmq.text_positions import (  # noqa: PLC0415
            nearest_offset,
            path_of,
            position_at,
            toml_offsets,
        )

        offset = nearest_offset(toml_offsets(self.text), path_of(name))
        return f"{self.path}, {position_at(self.text, offset)}"

    def given_by(self, name: str) -> str:
        """Return a suffix for errors about a setting: `` (given by …)``, with the place of its value."""
        return f" (given by {self.place_of(name)})"


def _unreadable(path: str, error: Exception) -> SettingError:
    reason = error.strerror if isinstance(error, OSError) else error
    return SettingError("config", path, f"a readable TOML file ({path}: {reason})")
