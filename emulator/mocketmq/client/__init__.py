"""Clients of the JSON API in Python: ``Client`` for asyncio, and ``BlockingClient`` without it.

An example::

    async with Client("http://127.0.0.1:9877") as broker:
        await broker.send("orders", "cancel order 7", delay_level=3)
        await broker.advance("10s")
        messages = await broker.receive("orders", group="shop")
        await broker.acknowledge("shop", messages)

The same without ``async`` and ``await`` is a program of the other. Answers are dictionaries with the fields
that the API documents. Instants (``_ms``) are epoch milliseconds; durations are texts such as ``200ms``,
``10s`` or ``2h``.
"""
