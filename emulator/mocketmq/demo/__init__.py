"""The demo, which plays a day of delayed messages through a real broker, and checks what consumers receive.

The demo starts a broker in another process and moves the broker's clock through the day. It sends a shop's
messages over all delay levels. Consumer groups receive them and sometimes give a message back. The demo
itself computes the expected due times, so that the check does not rely on the broker.
"""
