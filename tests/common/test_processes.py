"""Worker processes that die or hang. Tasks are expressions, evaluated in the workers."""

import functools
import os
import subprocess
import sys
import time
from typing import Any

import pytest

from fedpdc_med.common.errors import WorkFailed
from fedpdc_med.common.processes import Lost, Workers, cores

ABORT, SLEEP, PID = "__import__('os').abort()", "__import__('time').sleep(60)", "__import__('os').getpid()"


def opened(processes: int = 2, seconds: float | None = 30) -> Workers[str, Any]:
    workers = Workers[str, Any](processes, seconds, ahead=1)
    workers.open(functools.partial, eval)
    return workers


def run(tasks: list[str], batches: list[list[int]], processes: int = 2, seconds: float = 30, replaced: int = 0) -> dict:
    with opened(processes, seconds) as workers:
        found = dict(workers.stream(tasks, batches))
        assert workers.replaced == replaced
        return found


def once(mark, otherwise: str) -> str:
    """Dies the first time, for whichever process."""
    return (
        f"{otherwise} if __import__('os').path.exists({str(mark)!r}) else (open({str(mark)!r}, 'w').close(), {ABORT})"
    )


def test_every_task_is_answered_whatever_the_number_of_processes():
    tasks = [f"{i} * {i}" for i in range(50)]
    batches = [list(range(start, min(start + 7, 50))) for start in range(0, 50, 7)]
    expected = {i: i * i for i in range(50)}
    assert run(tasks, batches, processes=1) == run(tasks, batches, processes=3) == expected


def test_a_task_that_kills_its_process_costs_no_other_task():
    found = run(["1", "2", ABORT, "4", "5", "6"], [[0, 1, 2, 3], [4, 5]], replaced=3)
    assert found.pop(2) == Lost(timed_out=False)
    assert found == {0: 1, 1: 2, 3: 4, 4: 5, 5: 6}


def test_a_task_that_hangs_is_given_up_and_no_other_task():
    found = run(["1", SLEEP, "3"], [[0, 1, 2]], seconds=1, replaced=2)
    assert found == {0: 1, 1: Lost(timed_out=True), 2: 3}


def test_a_task_that_dies_once_is_tried_again(tmp_path):
    assert run([once(tmp_path / "mark", "7")], [[0]], processes=1, replaced=1) == {0: 7}


def test_tasks_that_are_handed_in_one_by_one_are_answered_beside_a_stream(tmp_path):
    with opened() as workers:
        answers = [workers.submit(task) for task in ("1", ABORT, once(tmp_path / "mark", "3"))]
        assert dict(workers.stream(["4", "5"], [[0], [1]])) == {0: 4, 1: 5}
        assert [answer() for answer in answers] == [1, Lost(timed_out=False), 3]


def test_who_is_idle_stays_for_the_next_function_and_who_is_busy_ends():
    with opened(processes=2) as workers:
        both = {pid for _, pid in workers.stream([PID, PID], [[0], [1]])}
        workers.submit(SLEEP)
        workers.open(functools.partial, len)
        assert dict(workers.stream(["ab", "cde"], [[0], [1]])) == {0: 2, 1: 3}
        workers.open(functools.partial, eval)
        after = {pid for _, pid in workers.stream([PID, PID], [[0], [1]])}
    assert len(both) == len(after) == 2
    assert len(both & after) == 1
    assert not any(alive(pid) for pid in both | after)


def test_a_process_that_cannot_start_is_an_error_and_not_a_loop():
    with Workers(1, 30) as workers, pytest.raises(WorkFailed, match="could not start"):
        workers.open(eval, ABORT)


def test_work_that_fails_for_a_reason_of_ours_stops_everything():
    failing = "(_ for _ in ()).throw(__import__('fedpdc_med.common.errors', fromlist=['x']).WorkFailed('disk full'))"
    with pytest.raises(WorkFailed, match="disk full"):
        run(["1", failing], [[0], [1]])


def test_nobody_is_left_when_the_parent_is_killed_in_the_middle_of_a_task():
    script = f"""
import functools
from fedpdc_med.common import processes
processes.PRELOADED.clear()
workers = processes.Workers(2)
workers.open(functools.partial, eval)
for _ in range(2):
    workers.submit("__import__('os').write(1, b'at work\\\\n'), {SLEEP}")
__import__('time').sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as parent:
        assert [parent.stdout.readline() for _ in range(2)] == ["at work\n"] * 2
        parent.kill()
        began = time.monotonic()
        assert parent.stdout.read() == ""  # ends when nobody is left who could write: workers, fork server, tracker
    assert time.monotonic() - began < 30


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux keeps to the limit")
def test_a_task_has_memory_for_the_largest_film_and_not_for_more():
    found = run(["len(bytearray(2 << 30))", "len(bytearray(4 << 30))", "3"], [[0], [1], [2]], replaced=2)
    assert found == {0: 2 << 30, 1: Lost(timed_out=False), 2: 3}


def test_files_of_workers_are_for_whom_the_umask_of_the_moment_says():
    umask = "(lambda os: (lambda mask: (os.umask(mask), mask))(os.umask(0))[1])(__import__('os'))"
    before = os.umask(0o027)
    try:
        assert run([umask], [[0]], processes=1) == {0: 0o027}
        os.umask(0o077)
        assert run([umask], [[0]], processes=1) == {0: 0o077}
    finally:
        os.umask(before)


def test_the_cores_are_known_on_systems_without_an_affinity_too(monkeypatch):
    assert 1 <= cores() <= os.cpu_count()
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    assert cores() == os.cpu_count()


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
