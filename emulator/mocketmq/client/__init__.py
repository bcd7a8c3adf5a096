"""Python clients of the JSON API: ``Client`` for asyncio, and ``BlockingClient`` without it.

An example::

    async with Client("http://127.0.0.1:9877") as broker:
        await broker.send("orders", "cancel order 7", delay_level=3)
        await broker.advance("10s")
        messages = await broker.receive("orders", group="shop")
        await broker.acknowledge("shop", messages)

With ``BlockingClient``, leave out ``async`` and ``await``. Responses are dictionaries with the fields
documented in the API. Instants (``_ms``) are epoch milliseconds; durations are strings such as ``200ms``,
``10s`` or ``2h``.
"""
