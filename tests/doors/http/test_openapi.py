"""The OpenAPI document is valid and complete, and a running broker conforms to it."""

import asyncio
import os
import sys
from asyncio.subprocess import PIPE, STDOUT
from pathlib import Path
from typing import Any

import pytest
from jsonschema_rs import Draft202012Validator, meta
from schemathesis.specs.openapi.definitions import OPENAPI_31_VALIDATOR

from mocketmq.http_api.server import route_groups
from mocketmq.settings import Settings
from tests.support.api import Api, running_api
from tests.support.patience import HANGING_S
from tests.support.process import forked_broker

TOKEN = "s3cret"  # noqa: S105 - guards nothing
OPEN: tuple[list[str], list[str]] = ([], [])
GUARDED = (["--token", TOKEN], ["--header", f"Authorization: Bearer {TOKEN}"])


@pytest.fixture
async def document(api: Api) -> Any:
    return await api.ok("GET", "/openapi.json")


def schemas_in(part: Any) -> list[Any]:
    """Yield every schema below a ``schema`` or ``schemas`` key."""
    if isinstance(part, list):
        return [found for one in part for found in schemas_in(one)]
    if not isinstance(part, dict):
        return []
    found = [part["schema"]] if "schema" in part else list(part.get("schemas", {}).values())
    return found + [one for value in part.values() for one in schemas_in(value)]


@pytest.mark.parametrize("operation", ["ack", "extend", "give-back"])
async def test_the_brokers_internal_group_is_refused(api: Api, document: Any, operation: str) -> None:
    body = {"receipts": ["any"]} | ({"invisible_ms": 1} if operation == "extend" else {})
    await api.refused(403, "POST", f"/v1/groups/CID_RMQ_SYS_TRANS/{operation}", body)
    assert "403" in document["paths"][f"/v1/groups/{{group}}/{operation}"]["post"]["responses"]


async def test_document_is_valid(document: Any) -> None:
    assert document["openapi"].startswith("3.1.")
    assert [str(error) for error in OPENAPI_31_VALIDATOR.iter_errors(document)] == []
    schemas = schemas_in(document)
    assert len(schemas) > 100
    for schema in schemas:
        meta.validate(schema)
        Draft202012Validator({**schema, "components": document["components"]})  # resolves every reference


async def test_document_lists_every_route_once(document: Any) -> None:
    listed = [(method.upper(), path) for path, methods in document["paths"].items() for method in methods]
    routes = [(route.method, route.path) for group in route_groups(Settings()) for route in group.routes]
    assert sorted(listed) == sorted(routes)
    operations = [what for methods in document["paths"].values() for what in methods.values()]
    assert len({what["operationId"] for what in operations}) == len(operations)
    for path, methods in document["paths"].items():
        for what in methods.values():
            in_path = [one["name"] for one in what.get("parameters", []) if one["in"] == "path"]
            assert in_path == [part[1:-1] for part in path.split("/") if part.startswith("{")]


async def test_document_has_the_allowed_values() -> None:
    async with running_api(max_wait_us=7_000_000) as api:
        schemas = (await api.ok("GET", "/openapi.json"))["components"]["schemas"]
    assert schemas["ReceiveIn"]["properties"]["wait_ms"]["maximum"] == 7_000
    assert schemas["WaitIn"]["properties"]["timeout_ms"]["maximum"] == 7_000
    assert schemas["MessageIn"]["oneOf"] == [{"required": ["body"]}, {"required": ["body_base64"]}]


async def test_generators_of_clients_take_the_document(document: Any) -> None:
    """openapi-generator refuses a link's body that is an object, and takes an integer for 32 bits."""
    operations = [what for methods in document["paths"].values() for what in methods.values()]
    responses = [each for what in operations for each in what["responses"].values()]
    links = [link for each in responses for link in each.get("links", {}).values()]
    assert len(links) > 5
    assert [link for link in links if "requestBody" in link] == []
    schemas = document["components"]["schemas"]
    assert schemas["Sent"]["properties"]["store_ms"] == {"type": "integer", "format": "int64"}
    assert "format" not in schemas["MessageIn"]["properties"]["queue_id"]


async def test_a_message_with_two_delays_is_refused(document: Any) -> None:
    schema = {**document["components"]["schemas"]["MessageIn"], "components": document["components"]}
    validator = Draft202012Validator(schema)
    delays: list[dict[str, Any]] = [
        {"delay_level": 1},
        {"delay_ms": 1},
        {"delay": "1s"},
        {"start_deliver_ms": 1},
    ]
    for index, delay in enumerate(delays):
        assert validator.is_valid({"body": "x", **delay})
        assert validator.is_valid({"body": "x", **delay, "delay_level": delay.get("delay_level", 0)})
        assert not validator.is_valid({"body": "x", **delay, **delays[index - 1]})


async def test_document_declares_the_token(document: Any) -> None:
    assert "security" not in document
    async with running_api(token=TOKEN) as api:
        answer = await api.call("GET", "/openapi.json", headers={"Authorization": f"Bearer {TOKEN}"})
    assert answer.body["components"]["securitySchemes"] == {"token": {"type": "http", "scheme": "bearer"}}
    assert answer.body["security"] == [{"token": []}]
    paths = answer.body["paths"]
    assert [path for path in paths if paths[path].get("get", {}).get("security") == []] == [
        "/v1/reports/{report}",
        "/healthz",
        "/readyz",
    ]
    assert "401" in paths["/v1/topics"]["get"]["responses"]
    assert "401" not in paths["/healthz"]["get"]["responses"]


@pytest.mark.parametrize(
    ("examples", "serve", "run"),
    [
        pytest.param(3, *OPEN, id="open"),
        pytest.param(20, *GUARDED, id="with a token, at length", marks=pytest.mark.slow),
    ],
)
async def test_schemathesis_finds_nothing(
    examples: int, serve: list[str], run: list[str], tmp_path: Path
) -> None:
    # A schema cannot express which start_deliver_ms is too far ahead; aliyun5 refuses none.
    settings = ("--max-wait", "50ms", "--start-deliver-time", "aliyun5")
    async with forked_broker("--clock", "manual", *settings, *serve) as broker:
        process = await asyncio.create_subprocess_exec(
            *(str(Path(sys.executable).parent / "schemathesis"), "run", f"{broker.url}/openapi.json"),
            *("--checks", "all", "--seed", "1", "--max-examples", str(examples)),
            *("--exclude-path", "/v1/stream"),  # never ends; test_http_live covers it
            *("--exclude-path", "/v1/reports"),  # takes a second per request; test_http_reports covers it
            *("--request-timeout", str(HANGING_S), "--suppress-health-check", "too_slow"),  # busy machines
            *("--generation-database", "none", "--no-color", *run),
            cwd=tmp_path,
            env=os.environ
            | {"SCHEMATHESIS_HOOKS": "schemathesis_hooks", "PYTHONPATH": str(Path(__file__).parent)},
            stdout=PIPE,
            stderr=STDOUT,
        )
        try:
            async with asyncio.timeout(HANGING_S):
                output, _ = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    report = output.decode()
    assert process.returncode == 0, report
    for phase in ("Coverage", "Fuzzing", "Stateful"):
        assert f"✅ {phase}" in report, report
