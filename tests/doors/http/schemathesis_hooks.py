"""Loaded by ``schemathesis run``: leaves out what it cannot say.

Schemathesis decodes a path parameter once before it encodes it. So of a name such as ``%RETRY%41``, which
is legal, the server is sent ``%RETRYA``, and of ``%RETRY%3A`` one that is not legal; neither is what was
generated, and blaming the server for the latter is wrong. ``test_http_topics`` covers such names.

Nor can a schema say what a condition of SQL92 is, which ``test_sql_filter`` covers, nor which fields go with
which kind of fault; those would strike the other requests as well, and ``test_faults`` covers them.
"""

import re
from typing import Any
from urllib.parse import unquote

import schemathesis
from schemathesis.core.parameters import ParameterLocation

LEGAL = re.compile("[%|a-zA-Z0-9_-]*")


@schemathesis.hook
def filter_case(_context: object, case: Any) -> bool:
    """Whether a case whose path is meant to be valid still has one, and what it says of filters is too."""
    if "SQL92" in (_filter_type(case.body), _filter_type(case.query)):
        return False
    if _is_fault(case):
        return False
    path = case.meta.components.get(ParameterLocation.PATH) if case.meta else None
    if path is None or not path.mode.is_positive:
        return True
    names = [value for name, value in case.path_parameters.items() if name in ("topic", "group")]
    return all(LEGAL.fullmatch(unquote(name)) for name in names)


def _is_fault(case: Any) -> bool:
    body = case.meta.components.get(ParameterLocation.BODY) if case.meta else None
    return (case.method, case.path) == ("POST", "/v1/faults") and body is not None and body.mode.is_positive


def _filter_type(given: Any) -> object:
    return given.get("filter_type") if isinstance(given, dict) else None
