"""The ports of a cluster."""

from mocketmq.message.names import MAX_BROKERS, MAX_NAME_SERVERS
from mocketmq.remoting.listening.ports import BETWEEN_BROKERS, BETWEEN_NAME_SERVERS, VIP_OFFSET
from mocketmq.settings import Settings


def test_the_default_ports_of_the_largest_cluster_differ() -> None:
    settings = Settings()
    brokers = [settings.broker_port + BETWEEN_BROKERS * each for each in range(MAX_BROKERS)]
    name_servers = [settings.namesrv_port + BETWEEN_NAME_SERVERS * each for each in range(MAX_NAME_SERVERS)]
    channels = [each + VIP_OFFSET for each in brokers]
    used = [settings.http_port, settings.grpc_port, *name_servers, *brokers, *channels]
    assert len(set(used)) == len(used)
