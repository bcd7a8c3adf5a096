"""A day of delayed messages through a real broker, judged by what its consumers received.

The demo starts a broker in a process of its own, with a clock that it moves itself. Through the day it
sends a shop's messages, order timeouts and retries, over all delay levels; lets consumer groups receive
them, who now and then give one back; and keeps its own account of what was due when. The broker's own
word on that is not asked.
"""
