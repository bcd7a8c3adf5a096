"""One suite of tests of an order service, run through mocketmq and through a real RocketMQ."""
