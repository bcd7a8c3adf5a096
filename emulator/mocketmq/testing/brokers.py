"""The brokers of a pytest worker: one for each combination of start options."""

from __future__ import annotations

import functools
import os
import random
import socket
from collections.abc import Mapping
from contextlib import suppress
from typing import Final, Literal

import pytest

from mocketmq.client.answer import UnreachableError
from mocketmq.duration import parse_duration_us
from mocketmq.testing import options
from mocketmq.testing.broker import Broker
from mocketmq.testing.options import StartOptions
from mocketmq.testing.process import BrokerProcess, StartError

_Door = Literal["http", "namesrv", "broker", "grpc"]
_DOORS: Final[tuple[_Door, ...]] = ("http", "namesrv", "broker", "grpc")
"""Doors with a port setting: ``http_port``, and so on."""
_PORTS: Final = range(20_000, 32_000)
"""Ports below the ephemeral ports of common systems."""
_NOT_STARTED: Final = 5
"""``Exit.NOT_STARTED`` of ``mocketmq.cli.exit_codes``, whose package imports click."""
_RESTARTS: Final = 10
"""Number of attempts to start a broker again at its ports. Each takes some tenths of a second."""


class Brokers:
    """Starts brokers on first use, and restarts dead ones at the same ports."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._url: str | None = config.getoption("mocketmq_url") or os.environ.get("MOCKETMQ_URL")
        self._running: dict[StartOptions, Broker] = {}
        self._failed: dict[StartOptions, str] = {}

    def ready(self, start: StartOptions) -> Broker:
        """Return the broker with these options. Fails the test if it does not start."""
        if start not in self._failed:
            try:
                return self._running_with(start)
            except (StartError, UnreachableError) as error:
                self._failed[start] = str(error)
        pytest.fail(self._failed[start], pytrace=False)

    def close(self) -> None:
        """Stop all brokers."""
        for broker in self._running.values():
            broker.close()
            if broker.process is not None:
                broker.process.stop()

    def _running_with(self, start: StartOptions) -> Broker:
        broker = self._running.get(start)
        if broker is None:
            broker = self._running[start] = self._found(start) if self._url else self._started(start)
        elif broker.process is not None and not broker.process.is_running:
            broker.process.stop()
            ports = {name: broker.doors[name]["port"] for name in _DOORS if name in broker.doors}
            broker.process = self._restarted(start, ports)
        return broker

    def _restarted(
        self, start: StartOptions, ports: Mapping[_Door, int], attempts: int = _RESTARTS
    ) -> BrokerProcess:
        """Start a dead broker again. Meanwhile, a connection of any program may have been given a port."""
        try:
            return self._process(start, ports)
        except StartError as error:
            if error.code != _NOT_STARTED or attempts == 1:
                raise
        return self._restarted(start, ports, attempts - 1)

    def _found(self, start: StartOptions) -> Broker:
        """Return the broker at the URL, after checking that it has the options that the test needs."""
        assert self._url  # noqa: S101 - the caller has checked it
        worker = getattr(self._config, "workerinput", {"workercount": 1})
        if worker["workercount"] > 1:
            raise StartError(
                f"{self._url} is one broker, which several workers would reset for each other:"
                " run without -n, or without --mocketmq-url and MOCKETMQ_URL"
            )
        broker = Broker(self._url, token=os.environ.get("MOCKETMQ_TOKEN"))
        info, settings = broker.info(), options.of_settings(self._config)
        brokers = str(len(info["doors"].get("brokers", (1,))))
        there: dict[str, object] = {**info, "brokers": brokers}
        for name, text, usual in zip(StartOptions._fields, start, settings):
            if text not in (usual, there[name]):
                has = there[name]
                raise StartError(f"the test needs {name} {text}; the broker at {self._url} has {has}")
        return broker

    def _started(self, start: StartOptions) -> Broker:
        has_places = any(f"{{{name}_port}}" in " ".join(self._command) for name in _DOORS)
        process = self._process(start, self._free_ports() if has_places else {})
        return Broker(process.url, process=process)

    @functools.cached_property
    def _command(self) -> list[str]:
        return options.command(self._config)

    def _process(self, start: StartOptions, ports: Mapping[_Door, int]) -> BrokerProcess:
        command = [*self._command, "--port", "0"]
        for name, port in ports.items():
            command = [part.replace(f"{{{name}_port}}", str(port)) for part in command]
            command += [f"--{name}-port", str(port)]
        patience = self._config.getini("mocketmq_start_timeout") or "60s"
        ready_s = parse_duration_us(patience, "mocketmq_start_timeout") / 1_000_000
        return BrokerProcess([*command, *start.flags], ready_s)

    def _free_ports(self) -> dict[_Door, int]:
        """Pick a free port per door, from a range below the ephemeral ports, shared out among the workers."""
        worker = getattr(self._config, "workerinput", {"workerid": "gw0", "workercount": 1})
        number = int(worker["workerid"].removeprefix("gw"))
        ports = list(_PORTS[number % worker["workercount"] :: worker["workercount"]])
        random.shuffle(ports)
        free = filter(_is_free, ports)
        return {name: next(free) for name in _DOORS}


def _is_free(port: int) -> bool:
    with socket.socket() as one, suppress(OSError):
        one.bind(("", port))
        return True
    return False
