#!/usr/bin/env python3
"""Python language host for an engine that was built from source: runs programs and plugins for `pulumi`.

Installed as `pulumi-language-python` beside the engine. It needs the Pulumi SDK in the Python that runs it. Programs
run in the interpreter of the runtime option `virtualenv` (relative to the project), or else in this one.
"""

import json
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any

try:
    import grpc
    from pulumi.runtime.proto import language_pb2, language_pb2_grpc, plugin_pb2
except ImportError as missing:
    sys.exit(f"{sys.executable} has no Pulumi SDK ({missing}): put the project's environment first on PATH")

EXECUTOR = Path(__file__).with_name("pulumi-language-python-exec")
MESSAGE_SHOWN = 32
"""The executor's exit code after it has shown an error itself."""

ENGINE_CHECK_S = 2.0


class Children:
    """The processes started here, so that none outlives this one."""

    def __init__(self) -> None:
        self._processes: set[subprocess.Popen[bytes]] = set()

    def run(self, command: list[str], **options: Any) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(command, **options)
        self._processes.add(process)
        return process

    def terminate(self) -> None:
        for process in self._processes:
            if process.poll() is None:
                process.terminate()


class LanguageHost(language_pb2_grpc.LanguageRuntimeServicer):
    """What the engine asks a language host; the calls for code generation stay unimplemented."""

    def __init__(self, engine: str, children: Children) -> None:
        self.engine = engine
        self._children = children

    def Handshake(self, request: Any, _context: Any) -> Any:
        self.engine = request.engine_address or self.engine
        return language_pb2.LanguageHandshakeResponse()

    def GetPluginInfo(self, _request: Any, _context: Any) -> Any:
        return plugin_pb2.PluginInfo(version=version("pulumi"))

    def About(self, _request: Any, _context: Any) -> Any:
        return language_pb2.AboutResponse(executable=sys.executable, version=sys.version.split()[0])

    def GetRequiredPackages(self, _request: Any, _context: Any) -> Any:
        return language_pb2.GetRequiredPackagesResponse()

    def GetRequiredPlugins(self, _request: Any, _context: Any) -> Any:
        return language_pb2.GetRequiredPluginsResponse()

    def GetProgramDependencies(self, _request: Any, _context: Any) -> Any:
        return language_pb2.GetProgramDependenciesResponse()

    def RuntimeOptionsPrompts(self, _request: Any, _context: Any) -> Any:
        return language_pb2.RuntimeOptionsResponse()

    def InstallDependencies(self, _request: Any, _context: Any) -> Iterator[Any]:
        return iter(())

    def Run(self, request: Any, _context: Any) -> Any:
        secrets = list(request.configSecretKeys)
        environment = os.environ | {
            "PULUMI_CONFIG": json.dumps(dict(request.config)),
            "PULUMI_CONFIG_SECRET_KEYS": json.dumps(secrets),
            "PYTHONUNBUFFERED": "1",
        }
        process = self._children.run(self._program_command(request), env=environment, cwd=request.pwd or None)
        match process.wait():
            case 0:
                return language_pb2.RunResponse()
            case code if code == MESSAGE_SHOWN:
                return language_pb2.RunResponse(bail=True)
            case code:
                return language_pb2.RunResponse(error=f"the program exited with code {code}")

    def _program_command(self, request: Any) -> list[str]:
        info = request.info
        options = {
            "project": request.project,
            "stack": request.stack,
            "organization": request.organization,
            "parallel": str(request.parallel),
            "dry_run": "true" if request.dryRun else "false",
            "pwd": request.pwd,
            "monitor": request.monitor_address,
            "engine": self.engine,
            "root_directory": info.root_directory,
        }
        flags = [word for name, value in options.items() for word in (f"--{name}", value)]
        program = str(Path(info.program_directory, info.entry_point))
        return [_python(info), "-u", str(EXECUTOR), *flags, program, *request.args]

    def RunPlugin(self, request: Any, _context: Any) -> Iterator[Any]:
        environment = os.environ | dict(setting.split("=", 1) for setting in request.env)
        command = [_python(request.info), "-u", request.info.program_directory, *request.args]
        pipe = subprocess.PIPE
        process = self._children.run(command, cwd=request.pwd, env=environment, stdout=pipe, stderr=pipe)
        for name, chunk in _merged({"stdout": process.stdout, "stderr": process.stderr}):
            yield _chunk(name, chunk)
        yield language_pb2.RunPluginResponse(exitcode=process.wait())


def _chunk(name: str, content: bytes) -> Any:
    field: dict[str, Any] = {name: content}
    return language_pb2.RunPluginResponse(**field)


def _python(info: Any) -> str:
    virtualenv = dict(info.options.items()).get("virtualenv")
    if not virtualenv:
        return sys.executable
    return str(Path(info.root_directory, virtualenv, "bin", "python"))


def _merged(pipes: dict[str, IO[bytes] | None]) -> Iterator[tuple[str, bytes]]:
    """Chunks of all pipes as they come, each with its pipe's name."""
    chunks: queue.SimpleQueue[tuple[str, bytes]] = queue.SimpleQueue()

    def pump(name: str, pipe: Any) -> None:
        while chunk := pipe.read1(65536):
            chunks.put((name, chunk))
        chunks.put((name, b""))

    for name, pipe in pipes.items():
        threading.Thread(target=pump, args=(name, pipe), daemon=True).start()
    still_open = len(pipes)
    while still_open:
        name, chunk = chunks.get()
        if chunk:
            yield name, chunk
        else:
            still_open -= 1


def _answers(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=ENGINE_CHECK_S):
            return True
    except OSError:
        return False


def _stop_signal() -> threading.Event:
    """Set when the engine stops us, which it does with SIGINT."""
    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())
    return stopped


def main() -> None:
    """Serve on a free port of the loopback interface, print it as the engine expects, and end with the engine."""
    stopped = _stop_signal()
    addresses = [argument for argument in sys.argv[1:] if not argument.startswith("-")]
    children = Children()
    host = LanguageHost(addresses[0] if addresses else "", children)
    server = grpc.server(ThreadPoolExecutor())  # type: ignore[no-untyped-call,unused-ignore]
    language_pb2_grpc.add_LanguageRuntimeServicer_to_server(host, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(port, flush=True)
    while not stopped.wait(ENGINE_CHECK_S) and (not host.engine or _answers(host.engine)):
        pass
    children.terminate()
    sys.stdout.flush()
    os._exit(0)  # a call that still waits for its program would hold up an orderly exit


if __name__ == "__main__":
    main()
