"""Hooks for ``schemathesis run``: receipts for its stateful tests, and cases to skip.

The document's links from a receive to what settles its messages have no ``requestBody``, which generators of
clients refuse. Without receipts, stateful tests would only see these requests refused.

Schemathesis decodes a path parameter once before it encodes it. So it sends ``%RETRYA`` for the legal name
``%RETRY%41``, and an illegal name for ``%RETRY%3A``. Neither name was generated, and it would wrongly blame
the server for the refusal of the latter. ``test_http_topics`` covers these names.

A schema cannot describe SQL92 conditions (``test_sql_filter`` covers them), durations that are too long
(``test_http_durations``), or which topics take priorities (``test_http_priorities``). It also cannot say
which fields belong to which kind of fault, nor which text is a file of seeds and which times are past; a
fault rule would match the other requests as well. ``test_faults`` and ``test_seeds`` cover these.
"""

import re
from typing import Any
from urllib.parse import unquote

import schemathesis
from schemathesis.core.parameters import ParameterLocation

UNDESCRIBED = {"delay", "delay_ms", "wait", "pause", "invisible", "priority", "lite_topic"}
LEGAL = re.compile("[%|a-zA-Z0-9_-]*")


@schemathesis.hook
def before_load_schema(_context: object, raw_schema: dict[str, Any]) -> None:
    """Give the links from a receive the receipt of its first message."""
    receive = raw_schema["paths"]["/v1/groups/{group}/receive"]["post"]
    for name, link in receive["responses"]["200"]["links"].items():
        more = {"invisible_ms": 0} if name == "extend" else {}
        link["requestBody"] = {"receipts": ["$response.body#/messages/0/receipt"], **more}


@schemathesis.hook
def filter_case(_context: object, case: Any) -> bool:
    """Whether a case that is meant to be valid still has a valid path and valid filters."""
    if "SQL92" in (_filter_type(case.body), _filter_type(case.query)):
        return False
    if _is_fault_or_seed(case) or _has_undescribed(case.body) or _has_undescribed(case.query):
        return False
    path = case.meta.components.get(ParameterLocation.PATH) if case.meta else None
    if path is None or not path.mode.is_positive:
        return True
    names = [value for name, value in case.path_parameters.items() if name in ("topic", "group")]
    return all(LEGAL.fullmatch(unquote(name)) for name in names)


def _is_fault_or_seed(case: Any) -> bool:
    body = case.meta.components.get(ParameterLocation.BODY) if case.meta else None
    is_one = case.method == "POST" and case.path in ("/v1/faults", "/v1/seeds")
    return is_one and body is not None and body.mode.is_positive


def _has_undescribed(given: Any) -> bool:
    if isinstance(given, list):
        return any(map(_has_undescribed, given))
    if not isinstance(given, dict):
        return False
    return not given.keys().isdisjoint(UNDESCRIBED) or _has_undescribed(given.get("messages"))


def _filter_type(given: Any) -> object:
    return given.get("filter_type") if isinstance(given, dict) else None
