"""Lateness reports: how late was every delayed delivery, why, and does the broker pass its thresholds?

``ledger`` reads the rows that brokers recorded, ``compute`` makes the tables of a ``document``, ``judge``
checks thresholds and compares reports, and ``report`` writes HTML, JSON, Markdown and JUnit XML. ``job`` does
these steps in order, and ``command`` is the command line. ``live`` follows a running broker.
"""
