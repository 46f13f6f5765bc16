"""A supervised process from start to end: real processes, one supervisor each."""

import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pulumi_infercrane.components.supervision import starting, supervisor
from pulumi_infercrane.components.supervision.observing import observe, read_record
from pulumi_infercrane.components.supervision.restarting import ProcessNotRestarted, restart
from pulumi_infercrane.components.supervision.starting import (
    PortTaken,
    ProcessDiffers,
    ProcessNotStarted,
    Specification,
    ensure,
    log_text,
)
from pulumi_infercrane.components.supervision.stopping import remove, stop

Child = Callable[..., tuple[str, ...]]

STARTER = """
import sys
from pathlib import Path
from pulumi_infercrane.components.supervision.starting import Specification, ensure
print(ensure(Specification("one", Path(sys.argv[1]), tuple(sys.argv[2:]), {}, "127.0.0.1", 0, 5, 2, 60, 1))[0].pid)
"""


@pytest.fixture
def specify(place: Path) -> Callable[..., Specification]:
    def make(argv: tuple[str, ...], **changes: Any) -> Specification:
        usual = Specification(
            name="one",
            place=place,
            argv=argv,
            env={},
            host="127.0.0.1",
            port=0,
            stop_grace_s=5,
            max_restarts=2,
            window_s=60,
            backoff_s=0.05,
        )
        return replace(usual, **changes)

    return make


def test_a_process_outlives_the_command_that_started_it(
    specify: Any, child: Child, is_running: Any, supervisor_of: Any
) -> None:
    specification = specify(child("sleep"))
    command = [sys.executable, "-c", STARTER, str(specification.place), *specification.argv]
    pid = int(subprocess.run(command, capture_output=True, check=True).stdout)
    assert is_running(pid)
    assert os.getsid(pid) != os.getsid(0)
    assert Path(f"/proc/{supervisor_of(specification.folder)}/cwd").readlink() == Path("/")
    assert observe(specification.folder).state == "running"


def test_asking_twice_gives_the_same_process(specify: Any, child: Child) -> None:
    specification = specify(child("sleep"))
    first, started = ensure(specification)
    second, started_again = ensure(specification)
    assert (started, started_again) == (True, False)
    assert (first.pid, first.state) == (second.pid, "running")


def test_asking_twice_at_once_starts_one_process(specify: Any, child: Child) -> None:
    specification = specify(child("sleep"))
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: ensure(specification), range(4)))
    assert len({snapshot.pid for snapshot, _ in answers}) == 1
    assert sorted(started for _, started in answers) == [False, False, False, True]


def test_another_specification_under_the_same_name_is_refused_with_the_way_out(
    specify: Any, child: Child, supervisor_of: Callable[[Path], int]
) -> None:
    specification = specify(child("sleep"))
    ensure(specification)
    with pytest.raises(ProcessDiffers, match=f"`kill {supervisor_of(specification.folder)}`"):
        ensure(specify(child("sleep"), env={"A": "1"}))


def test_a_dead_process_gives_way_to_another_specification(specify: Any, child: Child) -> None:
    ensure(specify(child("sleep")))
    stop(specify(()).folder)
    snapshot, started = ensure(specify(child("sleep"), env={"A": "1"}))
    assert started
    assert snapshot.state == "running"


def test_stop_is_graceful_and_may_be_repeated(specify: Any, child: Child, is_running: Any) -> None:
    specification = specify(child("sleep"))
    pid = ensure(specification)[0].pid
    stop(specification.folder)
    stop(specification.folder)
    snapshot = observe(specification.folder)
    assert not is_running(pid)
    assert snapshot.state == "stopped"
    assert snapshot.last_exit["code"] == -signal.SIGTERM


def test_a_process_that_ignores_sigterm_is_ended_by_force_with_all_it_started(
    specify: Any, child: Child, eventually: Any
) -> None:
    specification = specify(child("ignore_term"), stop_grace_s=0.3)
    group = ensure(specification)[0].pid
    eventually(lambda: "ignoring" in log_text(specification.folder))
    begun = time.monotonic()
    stop(specification.folder)
    assert time.monotonic() - begun < 3
    assert observe(specification.folder).last_exit["code"] == -signal.SIGKILL
    eventually(lambda: not _group_members(group))


def test_an_exit_nobody_asked_for_is_a_crash_even_with_code_0(
    specify: Any, child: Child, eventually: Any, supervisor_of: Any, is_running: Any
) -> None:
    specification = specify(child("exit_0"))
    ensure(specification)
    eventually(lambda: observe(specification.folder).state == "failed")
    snapshot = observe(specification.folder)
    assert (snapshot.restarts, snapshot.last_exit["code"]) == (2, 0)
    assert snapshot.reason == "crashed 3 times in 60 s"
    eventually(lambda: not is_running(supervisor_of(specification.folder)))


def test_a_killed_process_is_started_again_on_its_port(specify: Any, child: Child, eventually: Any) -> None:
    specification = specify(child("serve", "{port}"))
    first = ensure(specification)[0]
    os.kill(first.pid, signal.SIGKILL)
    eventually(lambda: observe(specification.folder).pid not in (None, first.pid))
    again = observe(specification.folder)
    assert (again.state, again.restarts, again.port) == ("running", 1, first.port)


def test_the_pause_between_restarts_doubles(specify: Any, child: Child, eventually: Any) -> None:
    specification = specify(child("exit_3"), max_restarts=3, backoff_s=0.1)
    begun = time.monotonic()
    ensure(specification)
    eventually(lambda: observe(specification.folder).state == "failed")
    assert time.monotonic() - begun > 0.1 + 0.2 + 0.4


def test_a_stop_in_the_pause_before_a_restart_is_heard(specify: Any, child: Child, eventually: Any) -> None:
    specification = specify(child("exit_3"), backoff_s=30)
    ensure(specification)
    eventually(lambda: observe(specification.folder).state == "backoff")
    stop(specification.folder)
    assert observe(specification.folder).state == "stopped"


def test_a_restart_that_was_asked_for_is_no_crash(specify: Any, child: Child, is_running: Any) -> None:
    specification = specify(child("serve", "{port}"), max_restarts=0)
    first, begun = ensure(specification)[0], time.time()
    started = restart(specification.folder)
    again = observe(specification.folder)
    assert begun <= started == again.started_at
    assert (again.state, again.restarts, again.port) == ("running", 0, first.port)
    assert again.pid != first.pid
    assert not is_running(first.pid)
    stop(specification.folder)
    assert observe(specification.folder).state == "stopped"


def test_a_restart_ends_by_force_what_does_not_end_by_itself(
    specify: Any, child: Child, eventually: Any, is_running: Any
) -> None:
    specification = specify(child("ignore_term"), stop_grace_s=0.2)
    first = ensure(specification)[0]
    eventually(lambda: "ignoring" in log_text(specification.folder))
    restart(specification.folder)
    assert not is_running(first.pid)


def test_a_restart_needs_a_process_and_a_supervisor_that_knows_how(
    specify: Any, child: Child, eventually: Any, supervisor_of: Any
) -> None:
    specification = specify(child("sleep"))
    with pytest.raises(ProcessNotRestarted, match="one is not running under supervision"):
        restart(specification.folder)
    ensure(specification)
    record = read_record(specification.folder)
    assert record is not None
    supervisor.write_atomically(specification.folder / supervisor.STATE, record | {"restarts_on_hangup": False})
    with pytest.raises(ProcessNotRestarted, match="its supervisor is of an earlier version"):
        restart(specification.folder)
    assert observe(specification.folder).pid == record["child"]["pid"]


def test_a_restart_of_what_does_not_start_any_more_says_so(specify: Any, child: Child, tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text(f"#!{sys.executable} -S\nimport time\ntime.sleep(300)\n")
    program.chmod(0o755)
    specification = specify((str(program),))
    ensure(specification)
    program.unlink()
    with pytest.raises(ProcessNotRestarted, match="not startable any more"):
        restart(specification.folder)


def test_a_killed_supervisor_is_seen_and_replaced_without_touching_the_process(
    specify: Any, child: Child, eventually: Any, supervisor_of: Any, is_running: Any
) -> None:
    specification = specify(child("sleep"))
    pid = ensure(specification)[0].pid
    os.kill(supervisor_of(specification.folder), signal.SIGKILL)
    eventually(lambda: observe(specification.folder).state == "unsupervised")
    snapshot, started = ensure(specification)
    assert (snapshot.pid, snapshot.state, started) == (pid, "running", False)
    stop(specification.folder)
    assert not is_running(pid)


def test_an_unsupervised_process_is_stopped_all_the_same(
    specify: Any, child: Child, eventually: Any, supervisor_of: Any, is_running: Any
) -> None:
    specification = specify(child("sleep"))
    pid = ensure(specification)[0].pid
    os.kill(supervisor_of(specification.folder), signal.SIGKILL)
    eventually(lambda: observe(specification.folder).state == "unsupervised")
    stop(specification.folder)
    assert not is_running(pid)
    assert observe(specification.folder).state == "stopped"


@pytest.mark.parametrize("identity", ["boot_id", "start_time"])
def test_a_pid_that_belongs_to_somebody_else_by_now_is_left_alone(
    specify: Any, child: Child, identity: str, is_running: Any
) -> None:
    specification = specify(child("sleep"))
    ensure(specification)
    stop(specification.folder)
    record = read_record(specification.folder)
    with subprocess.Popen(child("sleep")) as stranger:
        person = {"pid": stranger.pid, "start_time": supervisor.start_time(stranger.pid)}
        if identity == "boot_id":
            record["boot_id"] = "another boot"
        else:
            person["start_time"] += 1
        path = specification.folder / supervisor.STATE
        supervisor.write_atomically(path, record | {"supervisor": person, "child": person, "state": "running"})
        assert observe(specification.folder).state == "stopped"
        stop(specification.folder)
        assert is_running(stranger.pid)
        stranger.kill()


def test_remove_leaves_the_last_log_only(specify: Any, child: Child, eventually: Any) -> None:
    specification = specify(child("ignore_term"), stop_grace_s=0.1)
    ensure(specification)
    eventually(lambda: "ignoring" in log_text(specification.folder))
    remove(specification.folder)
    remove(specification.folder)
    left = sorted(path.name for path in specification.folder.parent.rglob("*") if path.is_file())
    assert left == [".one.lock", "output.log"]


def test_a_log_beyond_its_bound_is_moved_aside_without_losing_its_writer(
    specify: Any, child: Child, eventually: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(starting, "LOG_BYTES", 100_000)
    specification = specify(child("chatter"))
    ensure(specification)
    older = specification.folder / supervisor.OLDER_LOG
    eventually(older.exists)
    eventually(lambda: "line 09999" in older.read_text())
    assert older.stat().st_size == 100_000
    assert (specification.folder / supervisor.LOG).stat().st_size == 0


def test_the_environment_is_clean_and_secrets_are_not_written(
    specify: Any, child: Child, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LLAMA_ARG_CTX_SIZE", "7")
    specification = specify(child("sleep"), env={"KEY": "hunter2"})
    snapshot = ensure(specification)[0]
    environment = Path(f"/proc/{snapshot.pid}/environ").read_text()
    assert "KEY=hunter2" in environment
    assert "LLAMA_ARG_CTX_SIZE" not in environment
    files = [path for path in specification.folder.iterdir() if path.is_file()]
    assert not any("hunter2" in path.read_text() for path in files)


def test_files_are_for_the_owner_only(specify: Any, child: Child) -> None:
    specification = specify(child("sleep"))
    ensure(specification)
    modes = {stat.S_IMODE(path.stat().st_mode) & 0o077 for path in specification.folder.parent.rglob("*")}
    assert modes == {0}


def test_no_descriptor_is_handed_down(specify: Any, child: Child, tmp_path: Path, supervisor_of: Any) -> None:
    with (tmp_path / "stack.lock").open("w") as lock:
        os.set_inheritable(lock.fileno(), True)
        specification = specify(child("sleep"))
        pid = ensure(specification)[0].pid
        for process in (pid, supervisor_of(specification.folder)):
            assert not any("stack.lock" in target for target in _open_files(process))


def _open_files(pid: int) -> list[str]:
    """What a process holds open; a file it closes while we look is not among them."""
    found = []
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            found.append(str(link.readlink()))
    return found


def test_a_port_that_is_taken_names_its_holder(specify: Any, child: Child) -> None:
    first = ensure(specify(child("serve", "{port}")))[0]
    port = first.port
    _wait_for_listener(port)
    with pytest.raises(PortTaken, match=rf"127.0.0.1:{port} is taken by pid {first.pid} \(python"):
        ensure(specify(child("serve", "{port}"), name="two", port=port))


def test_a_chosen_port_is_kept_over_a_stop_while_it_is_free(specify: Any, child: Child) -> None:
    specification = specify(child("serve", "{port}"))
    port = ensure(specification)[0].port
    stop(specification.folder)
    assert ensure(specification)[0].port == port
    stop(specification.folder)
    with starting.ports.socket.create_server(("127.0.0.1", port)):
        assert ensure(specification)[0].port not in (0, port)


@pytest.mark.parametrize("program", ["/nowhere/llama-server", "/etc/hostname"])
def test_a_program_that_cannot_be_executed_is_named(specify: Any, program: str) -> None:
    with pytest.raises(ProcessNotStarted, match=program):
        ensure(specify((program,)))


def _group_members(group: int) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[2]) == group and fields[0] != "Z":
            found.append(path.parent.name)
    return found


def _wait_for_listener(port: int) -> None:
    give_up = time.monotonic() + 5
    while not starting.ports.holder(port):
        assert time.monotonic() < give_up
        time.sleep(0.02)
