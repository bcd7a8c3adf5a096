"""Tools for coding agents, over the Model Context Protocol. Only ``mocketmq mcp`` imports it.

``server`` needs the extra ``mcp``, and talks to a running broker by the client for asyncio.
"""
