"""HTTP/1.1 and server-sent events on bytes. Nothing here opens a connection."""
