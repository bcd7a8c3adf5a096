"""A running emulator: its settings, its broker and its addresses."""

from mocketmq.broker.broker import Broker
from mocketmq.grpc_proxy.server import GrpcServer
from mocketmq.http_api.server import HttpServer
from mocketmq.open_ports import OpenPort, OpenPorts
from mocketmq.remoting.listening.server import RemotingServer
from mocketmq.settings import Settings


class Emulator:
    """A running emulator. :func:`mocketmq.running_emulator` creates it."""

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
        self.remoting = remoting  # None if switched off, like ``grpc``
        self.grpc = grpc

    @property
    def doors(self) -> OpenPorts:
        """Every open port and its address."""
        return self.http.doors

    @property
    def url(self) -> str:
        """The URL of the JSON API."""
        return self.doors.http.address

    @property
    def aliyun_url(self) -> str | None:
        """The URL of the extra port for Aliyun's HTTP protocol; the JSON API's port serves it as well."""
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


def _address(door: OpenPort | None) -> str | None:
    return None if door is None else door.address
