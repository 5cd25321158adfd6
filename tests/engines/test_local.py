"""Real worker processes: same bits for any number of them, and a lost one costs nothing."""

import os
import signal
import threading
import time

import pytest

from fedpdc_med.common.errors import WorkFailed
from fedpdc_med.engines.local import DeviceEngine, ProcessEngine, _train, chunks
from fedpdc_med.federation.coordinator import Coordinator
from fedpdc_med.methods.learned_weights import SearchWeights
from fedpdc_med.methods.server_finetune import Finetune
from fedpdc_med.runs.directory import Run


def final_model(federation, engine, folder):
    run = Run.create(folder, {"kind": "test"})
    coordinator = Coordinator(federation, engine, run)
    records = [coordinator.run_round() for _ in range(federation.rounds)]
    return run.checkpoint_file.read_bytes(), records


@pytest.mark.parametrize(
    ("method", "settings"),
    [
        ("fedpdc", {"correction": "reference", "strength": 1, "weighting": "learned"}),
        ("fedpdc", {}),
        ("server-finetune", {}),
    ],
)
def test_the_number_of_workers_does_not_change_a_bit(tiny_federation, tmp_path, method, settings):
    results = []
    for workers in (1, 2, 3):
        federation = tiny_federation(method, settings=settings)
        engine = ProcessEngine(federation, workers)
        try:
            results.append(final_model(federation, engine, tmp_path / str(workers))[0])
        finally:
            engine.close()
    federation = tiny_federation(method, settings=settings)
    in_this_process, _ = final_model(federation, DeviceEngine(federation, "cpu"), tmp_path / "none")
    assert results == [in_this_process] * 3


def test_a_worker_that_is_killed_is_replaced_and_the_result_is_the_same(tiny_federation, tmp_path, monkeypatch):
    federation = tiny_federation("fedavg", per_site={i: {"epochs": 60} for i in range(4)}, rounds=1)
    undisturbed, _ = final_model(federation, DeviceEngine(federation, "cpu"), tmp_path / "undisturbed")
    engine = ProcessEngine(federation, 2)
    engine.predict(_initial(federation, tmp_path), "test")()  # the workers are up
    victim = next(iter(engine.pool._processes))

    def kill():
        while not list((tmp_path / "disturbed").glob("site_models/*.safetensors")):  # one of the four has answered
            time.sleep(0.005)
        os.kill(victim, signal.SIGKILL)

    submit, submitted = engine._submit, []
    monkeypatch.setattr(engine, "_submit", lambda work, *rest: submitted.append(work) or submit(work, *rest))
    threading.Thread(target=kill, daemon=True).start()
    try:
        state, records = final_model(federation, engine, tmp_path / "disturbed")
    finally:
        engine.close()
    assert [site["status"] for site in records[0]["sites"].values()] == ["ok"] * 4
    assert state == undisturbed
    assert submitted.count(_train) > 4, "the worker did not die while it trained"


def test_the_coordinators_own_training_outlives_its_worker(tiny_federation, tmp_path):
    federation = tiny_federation("server-finetune", settings={"server_epochs": 1000})
    start = _initial(federation, tmp_path)
    DeviceEngine(federation, "cpu").run_at_coordinator(Finetune(start, tmp_path / "here", 1000, 0.01, 1))
    engine = ProcessEngine(federation, 1)
    engine.predict(start, "test")()  # the worker is up
    victim = next(iter(engine.pool._processes))
    killing = threading.Timer(0.2, os.kill, (victim, signal.SIGKILL))
    killing.start()
    try:
        engine.run_at_coordinator(Finetune(start, tmp_path / "there", 1000, 0.01, 1))
        killing.join()
        assert victim not in engine.pool._processes
    finally:
        engine.close()
    assert (tmp_path / "there").read_bytes() == (tmp_path / "here").read_bytes()


@pytest.mark.parametrize("work", ["predict", "task"])
def test_work_whose_worker_dies_twice_fails_in_words(tiny_federation, tmp_path, work):
    federation = tiny_federation("fedpdc", settings={"weighting": "learned"})
    start, engine, over = _initial(federation, tmp_path), ProcessEngine(federation, 1), threading.Event()
    killed = set()

    def kill_all():
        while not over.wait(0.01):
            for process in list((engine.pool._processes or {}).values()):
                killed.add(process.pid)
                process.kill()

    killing = threading.Thread(target=kill_all)
    killing.start()
    try:
        with pytest.raises(WorkFailed, match=r"died twice; .* the run can be resumed"):
            {
                "predict": lambda: engine.predict(start, "test")(),
                "task": lambda: engine.run_at_coordinator(SearchWeights((start,), (1.0,), 1)),
            }[work]()
    finally:
        over.set()
        killing.join()
        engine.close()
    assert len(killed) == 2


def _initial(federation, folder):
    run = Run.create(folder / "initial", {"kind": "test"})
    Coordinator(federation, DeviceEngine(federation, "cpu"), run)
    return run.checkpoint_file


def test_closing_ends_the_workers(tiny_federation, tmp_path):
    federation = tiny_federation()
    engine = ProcessEngine(federation, 2)
    engine.predict(_initial(federation, tmp_path), "test")()
    workers = list(engine.pool._processes)
    engine.close()
    assert workers and not any(_alive(pid) for pid in workers)


def _alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_chunks_are_the_same_whatever_the_workers():
    assert chunks(6000) == [(0, 2500), (2500, 5000), (5000, 6000)]
    assert chunks(10) == [(0, 10)]
