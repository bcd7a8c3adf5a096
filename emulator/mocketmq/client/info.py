"""A broker's settings, limits and ports."""

from typing import NotRequired, TypedDict


class Door(TypedDict):
    """A port that is listened on, and its address: ``http://host:port``, or ``host:port``."""

    port: int
    address: str


class Doors(TypedDict):
    """JSON API, Aliyun's extra port, name server, broker, and its VIP channel, as far as they are open."""

    http: Door
    aliyun: NotRequired[Door]
    namesrv: NotRequired[Door]
    broker: NotRequired[Door]
    vip: NotRequired[Door]
    grpc: NotRequired[Door]


class Info(TypedDict):
    """The broker's settings and limits, and its open ``doors``. ``run`` counts its starts on this store."""

    version: str
    profile: str
    clock: str
    levels: str
    data: str
    durability: str
    run: int
    uptime_ms: int
    max_message_bytes: int
    max_batch: int
    max_long_poll_ms: int
    max_wait_ms: int
    doors: Doors
