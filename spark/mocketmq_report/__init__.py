"""Lateness reports: how late was every delayed delivery, why, and does it pass.

``ledger`` reads what was recorded, ``bins`` and ``lateness`` turn it into the tables of a ``document``,
``thresholds`` judges it, ``compare`` lays it beside others, and ``report`` writes it down. ``job`` does all
of that in order, ``__main__`` is its command line.
"""
