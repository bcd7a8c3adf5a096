"""The pytest plugin, in projects that pytest's own ``pytester`` makes."""
