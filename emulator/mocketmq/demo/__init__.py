"""The demo: play a day of delayed messages through a real broker, and check what its consumers receive.

It starts a broker as a process of its own and moves its clock through the day. It sends a shop's messages
over all delay levels, and consumer groups receive them and sometimes give one back. It computes due times
itself, without asking the broker.
"""
