"""The protocols of a broker, with the requests that are mutated, and functions that build mutated bytes."""

import json
import re
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from random import Random
from typing import Any, Final
from urllib.parse import quote, urlencode

import aiohttp
from hpack import Encoder

from mocketmq.grpc_proxy.definitions import SERVICE
from mocketmq.grpc_proxy.frames import END_HEADERS, END_STREAM, PREFACE, Frame, frame, settings_frame
from mocketmq.hosts import split_address
from mocketmq.remoting.requests.families import REQUESTS
from tests.doors.grpc import recorded as grpc_recorded
from tests.hostile.fuzz.mutations import mutated, mutated_json
from tests.support.process import BrokerProcess
from tests.unit.remoting import recorded as remoting_recorded
from tests.unit.remoting.corpus import seeds as corpus

_LENGTH: Final = re.compile(rb"(?i)content-length: *\d*")
_HEADERS: Final = "Host: localhost\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n\r\n"
_XML: Final = "text/xml"
_MESSAGE: Final = (
    "<Message><MessageBody>{body}</MessageBody><MessageTag>t</MessageTag>"
    "<Properties>KEYS:k|{properties}|</Properties></Message>"
)
_HANDLES: Final = "<ReceiptHandles><ReceiptHandle>a-b-c</ReceiptHandle></ReceiptHandles>"
_LEFT_OUT: Final = (
    "/v1/stream",  # has no end
    "/v1/reports",  # starts a process for each request
    "/v1/name-servers/{name_server}/stop",  # after it, all cases for the name server are refused in no time
)
_NAMES: Final = {"topic": "orders", "group": "billing", "unit": "ms"}
_DEEPEST: Final = 6
_CODES: Final = [*REQUESTS]


@dataclass(frozen=True, slots=True)
class FuzzedDoor:
    """A port, and a function that builds the bytes of one connection."""

    name: str
    address: tuple[str, int]
    make: Callable[[Random], bytes]


async def fuzzed_doors(broker: BrokerProcess) -> list[FuzzedDoor]:
    """Return all protocols of a running broker. The JSON API's requests come from its OpenAPI document."""
    async with aiohttp.ClientSession(broker.url) as session, session.get("/openapi.json") as answer:
        document = await answer.json()
    host, port = broker.name_server
    http = split_address(broker.url.removeprefix("http://"), 80)
    frames = [frame for client in remoting_recorded.FILES for frame in remoting_recorded.frames(client)]
    remoting = [*frames, *corpus("frames")]
    json_requests, aliyun_requests = list(_json_requests(document)), list(_aliyun_requests())
    rpcs = [request for client in grpc_recorded.FILES for request in grpc_recorded.requests(client)]
    return [
        FuzzedDoor("remoting", (host, broker.broker_port), lambda rng: _remoting(rng, remoting)),
        FuzzedDoor("name server", (host, port), lambda rng: _remoting(rng, remoting)),
        FuzzedDoor("gRPC", split_address(broker.grpc, 0), lambda rng: _grpc(rng, rpcs)),
        FuzzedDoor("JSON", http, lambda rng: _http(rng, json_requests)),
        FuzzedDoor("Aliyun HTTP", http, lambda rng: _http(rng, aliyun_requests)),
    ]


def _remoting(rng: Random, seeds: Sequence[bytes]) -> bytes:
    """Return up to four frames, most with valid lengths, so that the broker reads their content."""
    frames = bytearray()
    for _ in range(rng.choice((1, 1, 2, 4))):
        seed = rng.choice(seeds)
        if rng.random() < 0.2 or len(seed) < 8:
            frames += mutated(rng, seeds)
            continue
        form_and_size = int.from_bytes(seed[4:8], "big")
        size = form_and_size & 0xFF_FFFF
        header, body = seed[8 : 8 + size], seed[8 + size :]
        header = _header(rng, header)
        body = mutated(rng, [body]) if rng.random() < 0.4 else body
        form = form_and_size >> 24
        frames += struct.pack(">II", 4 + len(header) + len(body), form << 24 | len(header)) + header + body
    return bytes(frames)


def _header(rng: Random, header: bytes) -> bytes:
    """Return a header with changed bytes, with another field, or with the fields of another request."""
    way = rng.random()
    if way < 0.2:
        return header
    try:
        fields = json.loads(header)
    except ValueError:
        return mutated(rng, [header])
    if way < 0.4 or not isinstance(fields, dict):
        return mutated(rng, [header])
    if way < 0.5:
        fields["code"] = rng.choice(_CODES)
    ext = fields.get("extFields")
    return json.dumps(fields | {"extFields": mutated_json(rng, ext)} if ext else fields).encode()


def _grpc(rng: Random, seeds: Sequence[grpc_recorded.Recorded]) -> bytes:
    """Return up to four RPCs with changed messages, in valid or changed frames."""
    frames = bytearray(settings_frame({}))
    stream = 1
    for _ in range(rng.choice((1, 1, 2, 4))):
        seed = rng.choice(seeds)
        headers = {
            ":method": "POST",
            ":scheme": "http",
            ":path": f"/{SERVICE}/{seed.rpc}",
            ":authority": "localhost",
            "content-type": "application/grpc",
            **seed.headers,
        }
        block = Encoder().encode([(name, value, True) for name, value in headers.items()])
        if rng.random() < 0.1:
            block = mutated(rng, [block])
        message = mutated(rng, [seed.data])
        framed = bytes(1) + len(message).to_bytes(4, "big") + message
        frames += frame(Frame.HEADERS, END_HEADERS, stream, block)
        while len(framed) > 16_384:
            frames += frame(Frame.DATA, 0, stream, framed[:16_384])
            framed = framed[16_384:]
        frames += frame(Frame.DATA, END_STREAM, stream, framed)
        stream += 2
    return PREFACE + (mutated(rng, [bytes(frames)]) if rng.random() < 0.3 else bytes(frames))


def _http(rng: Random, seeds: Sequence[bytes]) -> bytes:
    """Return up to two requests, most with a valid length."""
    requests = bytearray()
    for _ in range(rng.choice((1, 1, 1, 2))):
        request = rng.choice(seeds) if (is_value := rng.random() < 0.5) else mutated(rng, seeds)
        head, blank, body = request.partition(b"\r\n\r\n")
        if is_value and body.startswith(b"{"):
            body = json.dumps(mutated_json(rng, json.loads(body))).encode()
        if blank and rng.random() < 0.9:
            head = _LENGTH.sub(f"Content-Length: {len(body)}".encode(), head)
        requests += head + blank + body
    return bytes(requests)


def _request(method: str, target: str, body: str, content_type: str) -> bytes:
    head = _HEADERS.format(content_type=content_type, length=len(body.encode()))
    return f"{method} {target} HTTP/1.1\r\n{head}{body}".encode()


def _aliyun_requests() -> Iterator[bytes]:
    properties = ("__STARTDELIVERTIME:4102444800000", "__SHARDINGKEY:a", "__TransCheckT:10", "a:b")
    for body, text in product(("hello", "&lt;a&gt;", ""), properties):
        message = _MESSAGE.format(body=body, properties=text)
        yield _request("POST", "/topics/orders/messages?ns=MQ_INST_1", message, _XML)
    for query in (
        {"numOfMessages": 16, "waitseconds": 1},
        {"numOfMessages": 1, "tag": "a||b", "trans": "order"},
        {"numOfMessages": 16, "trans": "pop"},
    ):
        target = f"/topics/orders/messages?{urlencode({'consumer': 'GID_a', **query})}"
        yield _request("GET", target, "", _XML)
    for trans in ("", "&trans=commit", "&trans=rollback"):
        yield _request("DELETE", f"/topics/orders/messages?consumer=GID_a{trans}", _HANDLES, _XML)
    yield _request("GET", "/rocketmq/nsaddr", "", _XML)


def _json_requests(document: Any) -> Iterator[bytes]:
    """Return each operation without and with its query, and with four bodies, the last with all fields."""
    schemas = document["components"]["schemas"]
    for path, operations in document["paths"].items():
        if path.startswith(_LEFT_OUT):
            continue
        for method, operation in operations.items():
            given = operation.get("parameters", [])
            target = path
            query = {}
            for parameter in given:
                value = _NAMES.get(parameter["name"]) or _example(parameter["schema"], schemas)
                if parameter["in"] == "path":
                    target = target.replace(f"{{{parameter['name']}}}", quote(str(value), safe=""))
                elif not isinstance(value, list | dict | None):
                    query[parameter["name"]] = value
            bodies = [""]
            if "requestBody" in operation:
                schema = operation["requestBody"]["content"]["application/json"]["schema"]
                bodies = [json.dumps(_example(schema, schemas, pick)) for pick in range(4)]
            for body in bodies:
                yield _request(method.upper(), target, body, "application/json")
                if query:
                    yield _request(method.upper(), f"{target}?{urlencode(query)}", body, "application/json")


def _example(schema: Any, schemas: Any, pick: int = 0, depth: int = 0) -> Any:
    """Return a value of a JSON schema; ``pick`` chooses among alternatives."""
    if "$ref" in schema:
        return _example(schemas[schema["$ref"].rpartition("/")[2]], schemas, pick, depth)
    for name in ("default", "const"):
        if schema.get(name) is not None:
            return schema[name]
    if "enum" in schema:
        return schema["enum"][pick % len(schema["enum"])]
    for name in ("anyOf", "oneOf", "allOf"):
        if name in schema:
            return _example(schema[name][pick % len(schema[name])], schemas, pick, depth)
    kind = schema.get("type")
    if kind == "object" and depth < _DEEPEST:
        fields = schema.get("properties", {})
        required = schema.get("required", ())
        return {
            name: _NAMES.get(name) or _example(value, schemas, pick, depth + 1)
            for at, (name, value) in enumerate(fields.items())
            if name in required or pick == 3 or at % 3 == pick
        }
    if kind == "array" and depth < _DEEPEST:
        return [_example(schema.get("items", {}), schemas, pick, depth + 1)] * (1 + pick)
    return {"string": "orders", "integer": 1, "number": 1.5, "boolean": True, "null": None}.get(kind, {})
