"""What works with each client, as runs of the tests found, kept for the pages that are made from it."""

import json
from collections.abc import Mapping, Set
from pathlib import Path

Results = dict[str, dict[str, bool]]
"""By client and feature, whether the feature held."""


def note(results: Results, client: str, feature: str, held: bool) -> None:
    """Add what one test found; a feature holds if it does in each of its tests."""
    features = results.setdefault(client, {})
    features[feature] = features.get(feature, True) and held


def save(file: Path, results: Results) -> None:
    """Keep the results of a run, in place of those of the last one with the same clients."""
    if results:
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps(saved(file) | results))


def saved(file: Path) -> Results:
    """The results of the last runs."""
    found: Results = json.loads(file.read_text()) if file.exists() else {}
    return found


def missing(tried: Mapping[str, Set[str]], results: Results) -> str | None:
    """How to get results that are missing or of other features than are tried, if there are any."""
    clients = [client for client, features in tried.items() if features != results.get(client, {}).keys()]
    if not clients:
        return None
    names = ", ".join(clients)
    return f"The last run was not one of all tests of {names}: make test, make interop, make from-source"
