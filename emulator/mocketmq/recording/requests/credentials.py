"""Removes credentials from what is recorded of a request: access keys, signatures, passwords, tokens.

They are found by their names, in fields, in queries, in bodies of JSON and in lines of ``name=value``. What
an application puts into a message is no credential: masks hide it.
"""

import re
from collections.abc import Mapping
from typing import Final

from mocketmq.recording.masks import STARS

_WORDS: Final = "password|passwd|secret|signature|token|access_?key|authorization|credential"
_NAME: Final = re.compile(_WORDS, re.IGNORECASE)
_IN_JSON: Final = re.compile(
    rf'("[\w.-]*(?:{_WORDS})[\w.-]*"\s*:\s*)("(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*|\[[^\]{{}}]*\])', re.IGNORECASE
)
_IN_LINES: Final = re.compile(rf"^(\s*[\w.-]*(?:{_WORDS})[\w.-]*\s*=)(.+)$", re.IGNORECASE | re.MULTILINE)


def without_credentials(fields: Mapping[str, str]) -> dict[str, str]:
    """Return fields with stars for the values of credentials."""
    return {name: STARS if _NAME.search(name) else value for name, value in fields.items()}


def text_without_credentials(text: str) -> str:
    """Return a body with stars for the values of credentials, and otherwise as it is."""
    if _NAME.search(text) is None:
        return text
    text = _IN_JSON.sub(rf'\1"{STARS}"', text)
    return _IN_LINES.sub(rf"\1{STARS}", text)


def path_without_credentials(path: str) -> str:
    """Return a path with stars for the values of credentials in its query."""
    before, mark, query = path.partition("?")
    parts = [part.partition("=") for part in query.split("&")]
    return (
        before
        + mark
        + "&".join(
            name + equals + (STARS if equals and _NAME.search(name) else value)
            for name, equals, value in parts
        )
    )
