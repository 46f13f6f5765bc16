"""A small program to supervise: `child.py BEHAVIOUR [PORT]`. It starts fast, so it imports next to nothing."""

import contextlib
import signal
import socket
import subprocess
import sys
import time
from typing import BinaryIO

CONTENT = b'{"data": [{"id": "tiny"}], "choices": [{"finish_reason": "length"}]}'


def serve(port: str, generation: int = 200) -> None:
    """Answer GET with 200 and POST with `generation`, one connection after the other."""
    with socket.create_server(("127.0.0.1", int(port))) as server:
        while True:
            connection, _ = server.accept()
            with contextlib.suppress(OSError), connection, connection.makefile("rb") as request:
                answer(connection, 200 if request.readline().startswith(b"GET") else generation, request)


def answer(connection: socket.socket, status: int, request: BinaryIO) -> None:
    length = 0
    for line in request:
        if line == b"\r\n":
            break
        if line.lower().startswith(b"content-length:"):
            length = int(line.split(b":")[1])
    request.read(length)
    head = f"HTTP/1.1 {status} X\r\nConnection: close\r\nContent-Length: {len(CONTENT)}\r\n\r\n"
    connection.sendall(head.encode() + CONTENT)


def main(behaviour: str, port: str = "0") -> None:
    match behaviour:
        case "serve":
            serve(port)
        case "serve_slowly":
            time.sleep(0.5)
            serve(port)
        case "serve_errors":
            serve(port, generation=500)
        case "sleep":
            time.sleep(300)
        case "ignore_term":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            subprocess.Popen([sys.executable, "-S", __file__, "sleep"])
            print("ignoring", flush=True)
            time.sleep(300)
        case "exit_0":
            sys.exit(0)
        case "exit_3":
            sys.exit("fatal: cannot go on")
        case "chatter":
            for number in range(10_000):
                print(f"line {number:05}" + "." * 90, flush=True)
            time.sleep(300)


if __name__ == "__main__":
    main(*sys.argv[1:])
