"""The ready file: tells other processes that this one is ready, and what they may need to know of it."""

from pathlib import Path

import msgspec

from mocketmq.errors import SettingError


class ReadyFile:
    """A JSON file that exists while a broker or a relay is ready.

    Methods raise SettingError when the disk refuses.
    """

    def __init__(self, path: str) -> None:
        self._file = Path(path)
        self.remove()  # one that a killed process left

    def write(self, facts: object) -> None:
        """Write these, as JSON. Whoever sees the file sees all of it."""
        temporary = self._file.with_name(f"{self._file.name}.tmp")
        try:
            temporary.write_bytes(msgspec.json.encode(facts) + b"\n")
            temporary.replace(self._file)
        except OSError as error:
            raise self._refused(error) from error

    def remove(self) -> None:
        """Remove it. May be called twice."""
        try:
            self._file.unlink(missing_ok=True)
        except OSError as error:
            raise self._refused(error) from error

    def _refused(self, error: OSError) -> SettingError:
        return SettingError("ready_file", str(self._file), f"a file that can be written ({error.strerror})")
