"""The data plane on asyncio protocols: client connections, exchanges, upstream connections and their pools."""
