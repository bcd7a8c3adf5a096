"""A running emulator: its settings, its broker and where it listens."""

from mocketmq.broker.broker import Broker
from mocketmq.doors import Door, Doors
from mocketmq.grpc_proxy.server import GrpcServer
from mocketmq.http_api.server import HttpServer
from mocketmq.remoting.listening.server import RemotingServer
from mocketmq.settings import Settings


class Emulator:
    """A running emulator. Made by :func:`mocketmq.running_emulator`."""

    def __init__(
        self,
        settings: Settings,
        broker: Broker,
        http: HttpServer,
        remoting: RemotingServer | None,
        grpc: GrpcServer | None,
    ) -> None:
        self.settings = settings
        self.broker = broker
        self.http = http
        self.remoting = remoting  # None when it is switched off, as the next
        self.grpc = grpc

    @property
    def doors(self) -> Doors:
        """Every port that is listened on, and its address."""
        return self.http.doors

    @property
    def url(self) -> str:
        """Where the JSON API listens."""
        return self.doors.http.address

    @property
    def aliyun_url(self) -> str | None:
        """Where Aliyun's HTTP protocol listens by itself; the JSON API's port serves it as well."""
        return _address(self.doors.aliyun)

    @property
    def namesrv_address(self) -> str | None:
        """``host:port`` of the name server, unless remoting is off."""
        return _address(self.doors.namesrv)

    @property
    def broker_address(self) -> str | None:
        """``host:port`` of the broker, unless remoting is off."""
        return _address(self.doors.broker)

    @property
    def grpc_address(self) -> str | None:
        """``host:port`` for clients of RocketMQ 5, unless gRPC is off."""
        return _address(self.doors.grpc)


def _address(door: Door | None) -> str | None:
    return None if door is None else door.address
