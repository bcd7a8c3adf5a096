"""Lateness reports: how late was every delayed delivery, why, and does that pass?

``ledger`` reads what brokers recorded, ``compute`` makes the tables of a ``document`` from it, ``judge``
compares that with thresholds and with other reports, and ``report`` writes it as HTML, JSON, Markdown and
JUnit XML. ``job`` does these steps in order, and ``command`` is the command line. ``live`` follows a running
broker instead.
"""
