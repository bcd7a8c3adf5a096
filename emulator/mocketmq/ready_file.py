"""The ready file, which exists while a broker or relay is ready, and contains its addresses."""

from pathlib import Path

import msgspec

from mocketmq.errors import SettingError


class ReadyFile:
    """A JSON file that exists while a broker or a relay is ready.

    Methods raise SettingError if the file cannot be written or removed.
    """

    def __init__(self, path: str) -> None:
        self._file = Path(path)
        self.remove_file()  # a killed process may have left one

    def write(self, facts: object) -> None:
        """Write the facts as JSON, atomically."""
        temporary = self._file.with_name(f"{self._file.name}.tmp")
        try:
            temporary.write_bytes(msgspec.json.encode(facts) + b"\n")
            temporary.replace(self._file)
        except OSError as error:
            raise self._refused(error) from error

    def remove_file(self) -> None:
        """Remove the file. May be called twice."""
        try:
            self._file.unlink(missing_ok=True)
        except OSError as error:
            raise self._refused(error) from error

    def _refused(self, error: OSError) -> SettingError:
        return SettingError("ready_file", str(self._file), f"a file that can be written ({error.strerror})")
