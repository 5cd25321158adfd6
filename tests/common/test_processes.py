"""Worker processes that die or hang. Tasks are expressions, evaluated in the workers."""

import functools
import os
import sys
import time

import pytest

from fedpdc_med.common.errors import WorkFailed
from fedpdc_med.common.processes import Lost, Workers, cores

ABORT, SLEEP = "__import__('os').abort()", "__import__('time').sleep(60)"


def run(tasks: list[str], batches: list[list[int]], processes: int = 2, seconds: float = 30, replaced: int = 0) -> dict:
    with Workers(functools.partial, (eval,), processes, seconds) as workers:
        found = dict(workers.run(tasks, batches))
        assert workers.replaced == replaced
        return found


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
    began = time.monotonic()
    found = run(["1", SLEEP, "3"], [[0, 1, 2]], seconds=1, replaced=2)
    assert found == {0: 1, 1: Lost(timed_out=True), 2: 3}
    assert time.monotonic() - began < 20


def test_a_task_that_dies_once_is_tried_again(tmp_path):
    mark = tmp_path / "mark"
    once = f"(lambda p: p.exists() or p.touch() or __import__('os').abort())(__import__('pathlib').Path({str(mark)!r}))"
    assert run([once], [[0]], processes=1, replaced=1) == {0: True}


def test_a_process_that_cannot_start_is_an_error_and_not_a_loop():
    with pytest.raises(WorkFailed, match="could not start"):
        Workers(eval, (ABORT,), 1, 30)


def test_work_that_fails_for_a_reason_of_ours_stops_everything():
    failing = "(_ for _ in ()).throw(__import__('fedpdc_med.common.errors', fromlist=['x']).WorkFailed('disk full'))"
    with pytest.raises(WorkFailed, match="disk full"):
        run(["1", failing], [[0], [1]])


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux keeps to the limit")
def test_a_task_has_memory_for_the_largest_film_and_not_for_more():
    found = run(["len(bytearray(2 << 30))", "len(bytearray(4 << 30))", "3"], [[0], [1], [2]], replaced=2)
    assert found == {0: 2 << 30, 1: Lost(timed_out=False), 2: 3}


def test_the_cores_are_known_on_systems_without_an_affinity_too(monkeypatch):
    assert 1 <= cores() <= os.cpu_count()
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    assert cores() == os.cpu_count()
