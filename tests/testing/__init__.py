"""The pytest plugin, in projects created by pytest's own ``pytester``."""
