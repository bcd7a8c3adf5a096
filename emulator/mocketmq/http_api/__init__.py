"""The JSON API over HTTP: a front door that translates requests and decides nothing."""
