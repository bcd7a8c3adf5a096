"""Class names must be unique, so that a search finds the intended class."""

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("compat", "emulator", "kits", "migrations", "spark")

ONE_CONCEPT = {
    "Broker": {"mocketmq.broker.broker", "mocketmq.testing.broker"},  # `mocketmq.testing` is public
    "Info": {"mocketmq.client.info", "mocketmq.http_api.operations"},
    "Load": {"mocketmq.lab.load", "mocketmq_report.lab.document"},  # the lab's load, as in its document
    "BrokerDoors": {"mocketmq.client.info", "mocketmq.open_ports"},
    "OpenPort": {
        "mocketmq.client.info",
        "mocketmq.open_ports",
    },  # the JSON API's answers, and the clients' types for them
    "OpenPorts": {"mocketmq.client.info", "mocketmq.open_ports"},
    "Run": {"mocketmq.store.counters", "mocketmq_report.document"},  # a broker's run, as in a report
}
"""Modules of classes that describe one thing on both sides of a document or an API."""


def test_no_two_classes_share_a_name() -> None:
    modules = defaultdict(set)
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            module = ".".join(path.relative_to(ROOT / package).with_suffix("").parts)
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    modules[node.name].add(module)
    assert {name: where for name, where in modules.items() if len(where) > 1} == ONE_CONCEPT
