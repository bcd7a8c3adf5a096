"""Common parts of HTML pages: one file that needs no network, with style, script and all data in it.

Jinja escapes all data, control characters are escaped too, and a Content-Security-Policy keeps a page from
loading anything.
"""

import json
from collections.abc import Callable, Mapping
from functools import cache
from importlib import resources
from typing import Any, Final

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from mocketmq_report import figures
from mocketmq_report.report.chart import DASHES

_SHAPES: Final = {
    "box": "M5 0H17V12H5Z",
    "circle": "M11 2A4 4 0 1 0 11 10A4 4 0 1 0 11 2Z",
    "diamond": "M11 0L16 6L11 12L6 6Z",
    "up": "M11 1L17 11H5Z",
}


def environment(package: str, filters: Mapping[str, Callable[..., Any]]) -> Environment:
    """Make the environment for templates of a package and ``macros.jinja``, with additional ``filters``."""

    def source(name: str) -> str:
        return _file(__package__ if name == "macros.jinja" else package, name)

    page = Environment(
        autoescape=True,
        finalize=_harmless,
        keep_trailing_newline=True,
        loader=FunctionLoader(source),
        lstrip_blocks=True,
        trim_blocks=True,
        undefined=StrictUndefined,
    )
    page.filters |= {
        "count": figures.count,
        "duration": figures.duration,
        "instant": figures.instant,
        "listed": figures.listed,
        "rate": figures.rate,
        "share": figures.share,
        **filters,
    }
    page.globals |= {
        "css": Markup(_file(__package__, "report.css")),  # noqa: S704 - our own
        "chinese": embedded(_catalogue(package)),
        "javascript": Markup(_file(__package__, "language.js") + _file(__package__, "report.js")),  # noqa: S704 - our own
        "dashes": DASHES,
        "shapes": _SHAPES,
    }
    return page


def embedded(specs: Mapping[str, Any]) -> Markup:
    """Return the specifications of charts by name, as JSON without characters of HTML markup."""
    text = json.dumps(specs, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c"))  # noqa: S704 - the text has no markup now


def _catalogue(package: str) -> dict[str, str]:
    """Read the Chinese texts for a package's templates, and the texts that all pages share."""
    texts: dict[str, str] = json.loads(_file(__package__, "zh.json"))
    if package != __package__:
        texts |= json.loads(_file(package, "zh.json"))
    return texts


@cache
def _file(package: str, name: str) -> str:
    return resources.files(package).joinpath(name).read_text("utf-8")


def _harmless(value: Any) -> Any:
    is_text = isinstance(value, str) and not isinstance(value, Markup)
    return figures.harmless(value) if is_text else value
