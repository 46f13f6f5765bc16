"""A small program to supervise: `child.py BEHAVIOUR [PORT]`."""

import http.server
import json
import signal
import subprocess
import sys
import time

MODEL = "tiny"


class Server(http.server.BaseHTTPRequestHandler):
    generation = 200

    def do_GET(self) -> None:
        self.answer(200, {"data": [{"id": MODEL}]})

    def do_POST(self) -> None:
        self.answer(self.generation, {"choices": [{"finish_reason": "length"}]})

    def answer(self, status: int, content: dict[str, object]) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        return


def serve(port: str) -> None:
    http.server.HTTPServer(("127.0.0.1", int(port)), Server).serve_forever()


def main(behaviour: str, port: str = "0") -> None:
    match behaviour:
        case "serve":
            serve(port)
        case "serve_slowly":
            time.sleep(0.7)
            serve(port)
        case "serve_errors":
            Server.generation = 500
            serve(port)
        case "sleep":
            time.sleep(300)
        case "ignore_term":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            subprocess.Popen([sys.executable, __file__, "sleep"])
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
