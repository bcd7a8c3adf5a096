"""Results of test runs for each client and feature, from which pages are made."""

import json
from collections.abc import Mapping, Set
from pathlib import Path

Results = dict[str, dict[str, bool]]
"""Whether each feature holds, by client and feature."""


def note(results: Results, client: str, feature: str, held: bool) -> None:
    """Add the result of one test; a feature holds if each of its tests passes."""
    features = results.setdefault(client, {})
    features[feature] = features.get(feature, True) and held


def save(file: Path, results: Results) -> None:
    """Save the results of a run, which replace the last results of the same clients."""
    if results:
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps(saved(file) | results))


def saved(file: Path) -> Results:
    """Return the results of the last runs."""
    found: Results = json.loads(file.read_text()) if file.exists() else {}
    return found


def missing(tried: Mapping[str, Set[str]], results: Results) -> str | None:
    """Return instructions to get results that are missing or outdated, or None."""
    clients = [client for client, features in tried.items() if features != results.get(client, {}).keys()]
    if not clients:
        return None
    names = ", ".join(clients)
    return f"The last run was not one of all tests of {names}: make test, make interop"
