"""Make docs/compatibility.md, which shows the features that work with each of RocketMQ's clients.

A test names its row by ``@pytest.mark.feature(row, *clients)``, or commands of ``mqadmin`` by
``@pytest.mark.mqadmin(*commands)``, with ``only=`` for commands of one version. Results are saved by client,
so runs of some clients add up to the page.
"""

import importlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from mocketmq.remoting.requests.families import FAMILIES
from mocketmq.remoting.wire.codes import RequestCode
from tests.clients import untried, upstream_codes
from tests.clients.frameworks import versions as frameworks
from tests.clients.go import versions as go
from tests.clients.grpc import versions as grpc
from tests.clients.java import versions as java
from tests.clients.results import Results, missing, saved
from tests.clients.rust import versions as rust
from tests.clients.tools import versions as tools

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PAGE = ROOT / "docs" / "compatibility.md"
SAVED = ROOT / "build" / "compatibility.json"

CLIENTS = {
    "java-4.3": "Java `rocketmq-client`",
    "java-4.9": "Java `rocketmq-client`",
    "java-5.5": "Java `rocketmq-client`",
    "ons-java": "Java `ons-client`",
    "python": "Python (C++) `rocketmq`",
    "node": "Node `ali-ons`",
    "go": "Go `rocketmq-client-go`",
    "rust": "Rust `rocketmq-client-rust`",
}
"""Names of the clients for users. The lock files of each language pin the versions."""

GRPC_CLIENTS = {
    "python-grpc": "Python `rocketmq-python-client`",
    "java-5.0-grpc": "Java `rocketmq-client-java`",
    "java-5.2-grpc": "Java `rocketmq-client-java`",
    "node-grpc": "Node `rocketmq-client-nodejs`",
    "go-grpc": "Go `rocketmq-clients/golang/v5`",
    "rust-grpc": "Rust `rocketmq`",
}
"""Clients of RocketMQ 5, which have their own features."""

FRAMEWORKS = {
    "spring-boot-2": "Spring Boot 2.7: `rocketmq-spring-boot-starter`",
    "spring-boot-3": "Spring Boot 3: `rocketmq-spring-boot-starter`",
    "stream": "Spring Cloud Stream: `spring-cloud-starter-stream-rocketmq`",
    "camel": "Apache Camel: `camel-rocketmq`",
    "dashboard": "RocketMQ Dashboard, by its recorded requests",
    "exporter": "`rocketmq-exporter`, by its recorded requests",
}
"""Frameworks and tools that bring a Java client. Their rows list the features that tests try them with."""

MQADMIN = {"mqadmin-4.9": "`mqadmin`", "mqadmin-5.5": "`mqadmin`"}
"""Versions of RocketMQ's command line. Its rows are the commands that tests run."""

FEATURES = {
    "Producing": [
        "Send and wait",
        "Send with a callback",
        "Send oneway",
        "Batches",
        "Queues chosen by key or selector",
        "Large bodies, compressed",
        "A topic that does not exist yet",
        "Tags, keys and properties",
    ],
    "Delaying": [
        "Delay levels",
        "All 18 levels, to the millisecond",
        "`__STARTDELIVERTIME`",
        "Timers: `TIMER_DELAY_SEC`, `TIMER_DELAY_MS`, `TIMER_DELIVER_MS`",
        "Delayed messages are recalled",
    ],
    "Consuming": [
        "Push consumer",
        "Push consumer, in order",
        "Push consumer, broadcasting",
        "Pull consumer",
        "Lite pull consumer",
        "Tag filters",
        "Consume from first, last or a time",
        "Queues are shared by the members of a group",
        "Offsets survive a restart of the consumer",
        "Failed messages are retried",
        "Dead letters after 16 retries",
        "Offsets are reset",
        "Messages found by key and by id",
        "SQL92 filters",
        "Pop consumer",
        "Priority messages",
    ],
    "Transactions": [
        "Commit and rollback",
        "Check-backs",
        "Committed with a delay",
    ],
    "Around": [
        "Namespace",
        "Access keys are accepted",
        "Access keys are checked",
        "TLS",
        "Request and reply",
        "Message trace",
        "A consumer reports on itself, and consumes a given message",
        "The address is discovered over HTTP",
        "To and from the JSON API",
    ],
}

GRPC_FEATURES = [
    "Send and wait",
    "Send with a callback",
    "Batches",
    "Large bodies",
    "A topic that does not exist yet",
    "Tags, keys and properties",
    "Delivery timestamps",
    "Delayed messages are recalled",
    "Simple consumer",
    "Several messages in one answer",
    "Invisible durations are changed",
    "Push consumer",
    "Push consumer, in order",
    "Push consumer, in order through retries",
    "Priority messages",
    "Lite push consumer",
    "Lite simple consumer",
    "Tag filters",
    "SQL92 filters",
    "Failed messages are retried",
    "Dead letters",
    "Commit and rollback",
    "Check-backs",
    "Namespace",
    "Access keys are checked",
    "TLS",
    "To and from the JSON API",
]

FRAMEWORK_FEATURES = [
    *(name for names in FEATURES.values() for name in names),
    "Pages of the cluster and of topics",
    "Pages of groups and clients",
    "Pages of messages, dead letters and traces",
    "Metrics for Prometheus",
]
"""Features by kind. Frameworks have all features of clients; tools have their own."""

_HEAD = """\
# RocketMQ's clients

The features that work with RocketMQ's unmodified clients. `python -m tests.clients.compatibility` makes
this page from runs of `make test` and `make interop`; do not edit it. A dash means that the client does not
have the feature, or that no test tries it. [Aliyun's HTTP clients](aliyun-clients.md) have their own page."""
_NEWER = """\

## RocketMQ 5.4 and 5.5

`make differential` compares mocketmq with brokers of three versions. The deliberate
[differences](differences.md) name a version where these three differ from each other. mocketmq follows

- 4.9 in sends, pulls, offsets, transactions, delay levels and administration; responses also have
  [fields of 5.x](differences.md#answers-to-remoting-clients);
- 5.3 in [pops](differences.md#popping), divided queues, timers, recalls and the proxy's
  [gRPC](differences.md#grpc);
- 5.5 in the same areas as 5.3, for the features of this table. Unlike in 5.5, a consumer may connect over
  gRPC before its group exists.

| feature | since | mocketmq |
|---|---|---|"""
NEWER = {
    "Priority messages: property `_SYS_MSG_PRIORITY_`, `priority` over gRPC, topics of type `PRIORITY`": (
        "5.4.0",
        "yes: [what comes first](messages.md#priorities), tested with clients for Java, Python, Node and Go",
    ),
    "`priority.factor`, how strictly a group follows priorities": (
        "5.4.0",
        "yes, by a count instead of a random number",
    ),
    "Switching between timers in files and on RocksDB (5001), transactions and index on RocksDB": (
        "5.4.0",
        "`--timed-scheme sorted` keeps timers on RocksDB from the beginning; 5001, which would move them,"
        " is refused",
    ),
    "Lite topics: property `__LITE_TOPIC`, `lite_topic` over gRPC, topics of type `LITE`": (
        "5.5.0",
        "yes: [how they work](lite-topics.md)",
    ),
    "Lite consumers: `LitePushConsumer`, `LiteSimpleConsumer`, SyncLiteSubscription, code 200071": (
        "5.5.0",
        "yes over gRPC, [tested with the clients that have them](lite-topics.md#sdks); 200070 to 200073,"
        " which serve RocketMQ's own proxy, are not supported",
    ),
    "Attributes for lite topics: `lite.topic.expiration`, `lite.bind.topic`, `lite.sub.…`": (
        "5.5.0",
        "yes; `lite.sub.client.max.event.cnt` is only stored",
    ),
    "A new invisible duration that counts no attempt: `suspend` over gRPC": (
        "5.5.0",
        "yes, for messages of lite topics; refused for others",
    ),
    "The broker tells clients to reconnect: ReconnectEndpointsCommand": (
        "rocketmq-apis 2.1.2",
        "[sent on request](grpc.md#reconnecting)",
    ),
    "What an application tells about itself: `client_properties` of a client's settings": (
        "after rocketmq-apis 2.1.2",
        "checked, and listed by `GET /v1/clients`",
    ),
    "The broker tells lite consumers to unsubscribe: NotifyUnsubscribeLiteCommand": (
        "rocketmq-apis 2.1.2",
        "sent to the client that loses a lite topic in a group with the model `Exclusive`",
    ),
    "Deleting many topics or groups at once (5002, 5003)": (
        "5.5.1",
        'not there yet: "not supported" (3)',
    ),
}
"""Features of RocketMQ newer than 5.3.3: their first version, and their effect here."""
NO_CLIENT_SENDS = {
    200070: "sent by RocketMQ's proxy",
    200071: "sent by RocketMQ's proxy",
    200072: "sent by nothing in 5.5.0",
    200073: "sent by RocketMQ's broker to its proxy",
}
"""Codes that are not supported although clients have the feature, and who sends them."""
_CODES = """\

## Request codes

All request codes of RocketMQ 4.9.8, 5.3.3 and 5.5.1. The broker answers a code with a dash, and any other
code, with code 3, "not supported"; [differences](differences.md#administration) says why. Responses report
the version set by [`--server-version`](rocketmq.md#the-version-that-clients-are-told).

| code | name | family |
|---|---|---|"""
_CELLS = {True: "yes", False: "**no**", None: "–"}


def tried() -> dict[str, set[str]]:
    """Return the features that tests try with each client."""
    found: dict[str, set[str]] = {
        client: set() for client in (*GRPC_CLIENTS, *CLIENTS, *FRAMEWORKS, *MQADMIN)
    }
    for mark in _marks("feature"):
        for client in mark.args[1:]:
            found[client].add(mark.args[0])
    for mark in _marks("mqadmin"):
        for version in _versions_of(mark):
            found[version].update(mark.args)
    return found


def shown_by(item: pytest.Item) -> Iterator[tuple[str, str]]:
    """Return the clients that this run of a test concerns, each with a feature or command."""
    for mark in item.iter_markers("feature"):
        yield from ((client, mark.args[0]) for client in clients_of(mark, item))
    for mark in item.iter_markers("mqadmin"):
        version: str | None = item.callspec.params.get("mqadmin") if hasattr(item, "callspec") else None
        yield from ((one, name) for one in [version] if one in _versions_of(mark) for name in mark.args)


def misuse(mark: pytest.Mark) -> str | None:
    """Return the defect of a test's feature mark, or None."""
    name, *clients = mark.args
    is_grpc = not GRPC_CLIENTS.keys().isdisjoint(clients)
    if name not in (GRPC_FEATURES if is_grpc else FRAMEWORK_FEATURES):
        return f"{name!r} is no row of {'GRPC_' if is_grpc else ''}FEATURES in {__name__}"
    known = [*GRPC_CLIENTS] if is_grpc else [*CLIENTS, *FRAMEWORKS]
    if not clients or set(clients) - set(known):
        return f"the mark of {name!r} names the clients {clients}; allowed: one or more of {known}"
    return None


def clients_of(mark: pytest.Mark, item: pytest.Item) -> list[str]:
    """Return the mark's clients that this run concerns: the parameter ``client``, or all."""
    client: str | None = item.callspec.params.get("client") if hasattr(item, "callspec") else None
    return [name for name in mark.args[1:] if client in (None, name)]


def versions() -> dict[str, str]:
    """Return the version of each tested client."""
    pins = (ROOT / "requirements-dev.lock").read_text()
    package = json.loads((HERE / "node" / "package.json").read_text())
    [python] = re.findall(r"^rocketmq==(\S+)", pins, re.MULTILINE)
    ours = {"python": python, "node": package["dependencies"]["ali-ons"]}
    pinned = (java, go, rust, grpc, frameworks, tools)
    return ours | {client: version for each in pinned for client, version in each.versions().items()}


def page(results: Results) -> str:
    """Return the text of the page, from the results of complete runs."""
    made = [*_tables(results), *_frameworks(results), *_commands(results)]
    return "\n".join([_HEAD, *made, untried.table(), *_newer(), codes()]) + "\n"


def codes() -> str:
    """Return the table of request codes, from the declarations of the requests."""
    families = {request.code: family.name for family in FAMILIES for request in family.requests}
    known = {int(code): families.get(code, "sent by the broker") for code in RequestCode}
    names = upstream_codes.NAMES | {int(code): code.name for code in RequestCode}
    not_known = {code: f"–, {reason}" for code, reason in NO_CLIENT_SENDS.items()}
    shown = not_known | known
    lines = [f"| {code} | {names[code]} | {shown.get(code, '–')} |" for code in sorted(names)]
    return "\n".join([_CODES, *lines])


def write() -> str | None:
    """Write the page. Returns instructions to get missing results, if any."""
    results = saved(SAVED)
    if how := missing(tried(), results):
        return how
    PAGE.write_text(page(results))
    return None


def write_codes() -> None:
    """Write the tables that need no results, and keep the rest of the page."""
    rest, _, _ = PAGE.read_text().partition(_NEWER)
    PAGE.write_text("\n".join([rest.removesuffix("\n"), *_newer(), codes()]) + "\n")


def _tables(results: Results) -> Iterator[str]:
    yield from _table("RocketMQ 5, over gRPC", GRPC_FEATURES, GRPC_CLIENTS, results)
    for title, names in FEATURES.items():
        yield from _table(title, names, CLIENTS, results)


def _table(title: str, names: Sequence[str], clients: Mapping[str, str], results: Results) -> Iterator[str]:
    """Return a table of the clients that were tried, or nothing if none was."""
    shown, found = [client for client in clients if client in results], versions()
    if shown:
        titles = " | ".join(f"{clients[client]} {found[client]}" for client in shown)
        yield f"\n## {title}\n\n| | {titles} |\n|---{'|---' * len(shown)}|"
        for name in names:
            yield f"| {name} | {' | '.join(_CELLS[results[client].get(name)] for client in shown)} |"


def _frameworks(results: Results) -> Iterator[str]:
    ran, found = [framework for framework in FRAMEWORKS if framework in results], versions()
    if ran:
        yield "\n## Frameworks\n\n| | version | features |\n|---|---|---|"
        for framework in ran:
            held = results[framework]
            names = [name for name in FRAMEWORK_FEATURES if name in held]
            shown = "; ".join(name if held[name] else f"**not:** {name}" for name in names)
            yield f"| {FRAMEWORKS[framework]} | {found[framework]} | {shown} |"


def _commands(results: Results) -> Iterator[str]:
    ran, found = [version for version in MQADMIN if version in results], versions()
    if ran:
        titles = " | ".join(f"{MQADMIN[version]} {found[version]}" for version in ran)
        yield f"\n## Commands of `mqadmin`\n\n| | {titles} |\n|---{'|---' * len(ran)}|"
        for name in sorted(set().union(*(results[version] for version in ran)), key=str.lower):
            yield f"| `{name}` | {' | '.join(_CELLS[results[version].get(name)] for version in ran)} |"


def _newer() -> Iterator[str]:
    yield _NEWER
    for feature, (since, here) in NEWER.items():
        yield f"| {feature} | {since} | {here} |"


def _versions_of(mark: pytest.Mark) -> list[str]:
    return [mark.kwargs["only"]] if "only" in mark.kwargs else list(MQADMIN)


def _marks(kind: str) -> Iterator[pytest.Mark]:
    for file in sorted(HERE.glob("*/test_*.py")):
        module = importlib.import_module(f"{__package__}.{file.parent.name}.{file.stem}")
        for test in vars(module).values():
            yield from (mark for mark in getattr(test, "pytestmark", []) if mark.name == kind)
