"""Lateness reports: how late each delayed delivery was, why, and whether the broker meets its thresholds.

``ledger`` reads the rows that brokers recorded, ``compute`` makes the tables of a ``document``, ``judge``
checks thresholds and compares reports, and ``report`` writes HTML, JSON, Markdown and JUnit XML. ``job`` runs
these steps in order, and ``command`` is the command line. ``live`` follows a running broker.
"""
