"""Real worker processes: same bits for any number of them, and a lost one costs nothing."""

from dataclasses import replace

import pytest
import torch

from fedpdc_med.common.errors import WorkFailed
from fedpdc_med.engines.local import DeviceEngine, ProcessEngine, chunks, open_engine
from fedpdc_med.federation.coordinator import Coordinator
from fedpdc_med.federation.images import Films
from fedpdc_med.federation.protocol import Assignment, Failure
from fedpdc_med.methods.learned_weights import SearchWeights
from fedpdc_med.methods.server_finetune import Finetune
from fedpdc_med.runs.directory import scratch_run


@pytest.fixture
def processes():
    """A maker of engines with worker processes."""
    engines = []

    def make(federation, workers):
        engines.append(ProcessEngine(federation, workers))
        return engines[-1]

    yield make
    for engine in engines:
        engine.close()


def final_model(federation, engine, folder):
    run = scratch_run(folder)
    coordinator = Coordinator(federation.plan, federation.coordinator, engine, run)
    records = [coordinator.run_round() for _ in range(federation.plan.rounds)]
    return run.checkpoint_file.read_bytes(), records


def initial(federation, folder):
    run = scratch_run(folder / "initial")
    Coordinator(federation.plan, federation.coordinator, DeviceEngine(federation, "cpu"), run)
    return run.checkpoint_file


class Deadly:
    """In place of a path: whoever is sent it is killed, the first `times` times."""

    def __init__(self, path, times):
        self.path, self.times, self.marks = path, times, path.with_name("marks")
        self.marks.mkdir()

    def __reduce__(self):
        killed = f"open(f'{self.marks}/{{os.getpid()}}', 'w').close(), os.kill(os.getpid(), 9)"
        alive = f"pathlib.Path('{self.path}')"
        chosen = f"{alive} if len(os.listdir('{self.marks}')) >= {self.times} else ({killed})"
        return eval, (f"(lambda os, pathlib: {chosen})(__import__('os'), __import__('pathlib'))",)


@pytest.mark.parametrize(
    ("method", "settings"),
    [
        ("fedpdc", {"correction": "soft-accuracy", "strength": 1, "weighting": "learned"}),
        ("fedpdc", {}),
        ("server-finetune", {}),
    ],
)
def test_the_number_of_workers_does_not_change_a_bit(tiny_federation, tmp_path, processes, method, settings):
    federation = tiny_federation(method, settings=settings)
    in_this_process, _ = final_model(federation, DeviceEngine(federation, "cpu"), tmp_path / "none")
    for workers in (1, 3):
        engine = processes(federation, workers)
        assert final_model(federation, engine, tmp_path / str(workers))[0] == in_this_process
        engine.close()


@pytest.mark.parametrize("method", ["data-sharing", "fedpdc-ce", "server-finetune"])
def test_films_are_copied_to_a_device_and_give_the_same_there(tiny_federation, tmp_path, method):
    federation = tiny_federation(method)
    where_films_lie, _ = final_model(federation, DeviceEngine(federation, "cpu"), tmp_path / "cpu")
    copied, _ = final_model(federation, DeviceEngine(federation, "cpu:0"), tmp_path / "device")
    assert copied == where_films_lie


def test_sites_train_on_the_gpu_where_there_is_one(tiny_federation):
    engine = open_engine(tiny_federation(), 2)
    assert type(engine) is (DeviceEngine if torch.cuda.is_available() else ProcessEngine)
    engine.close()


def test_a_worker_that_is_killed_is_replaced_and_the_result_is_the_same(tiny_federation, tmp_path, processes):
    federation = tiny_federation("fedavg")
    start = initial(federation, tmp_path)
    there, here = folders(tmp_path)
    engine = processes(federation, 2)
    before = engine.workers.replaced
    updates = list(engine.train(assignments(federation, start, Deadly(start, times=1)), there))
    list(DeviceEngine(federation, "cpu").train(assignments(federation, start, start), here))
    assert engine.workers.replaced == before + 1
    assert {update.site for update in updates} == set(federation.sites)
    files = sorted(file.name for file in here.iterdir())
    assert len(files) == 4
    assert [(there / name).read_bytes() for name in files] == [(here / name).read_bytes() for name in files]


def test_a_site_whose_process_dies_twice_fails_alone(tiny_federation, tmp_path, processes):
    federation = tiny_federation("fedavg")
    start = initial(federation, tmp_path)
    engine = processes(federation, 2)
    answers = list(engine.train(assignments(federation, start, Deadly(start, times=2)), folders(tmp_path)[0]))
    failures = [answer for answer in answers if isinstance(answer, Failure)]
    assert failures == [Failure("site-2", "its training process died twice; is there enough memory?")]
    assert sorted(answer.site for answer in answers) == ["site-0", "site-1", "site-2", "site-3"]


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("work", ["predict", "finetune", "search"])
def test_the_coordinators_own_work_outlives_one_worker_and_not_two(tiny_federation, tmp_path, processes, work, times):
    federation = tiny_federation("server-finetune" if work == "finetune" else "learned-weights")
    start, answer = initial(federation, tmp_path), tmp_path / "answer"

    def result_of(engine, model):
        if work == "predict":
            return engine.predict(model, "test")().tolist()
        if work == "search":
            return engine.run_at_coordinator(SearchWeights((model, model), (0.5, 0.5), 1))
        engine.run_at_coordinator(Finetune(model, answer, 1, 0.01, 1))
        return answer.read_bytes()

    engine, deadly = processes(federation, 1), Deadly(start, times)
    before = engine.workers.replaced
    if times == 1:
        assert result_of(engine, deadly) == result_of(DeviceEngine(federation, "cpu"), start)
    else:
        with pytest.raises(WorkFailed, match=r"died twice; .* resume the run"):
            result_of(engine, deadly)
    assert engine.workers.replaced == before + times


def test_a_mistake_in_a_worker_is_raised_here_with_where_it_was(tiny_federation, tmp_path, processes):
    engine = processes(tiny_federation(), 1)
    before = engine.workers.replaced
    with pytest.raises(FileNotFoundError) as raised:
        engine.predict(tmp_path / "missing", "test")()
    assert "worker.py" in raised.value.__notes__[0]
    assert engine.workers.replaced == before


def test_the_next_method_of_a_command_finds_the_workers_of_the_last(tiny_federation, tmp_path, processes):
    def who(engine):
        return {worker.process.pid for worker in engine.workers._workers}

    first = processes(tiny_federation("fedavg"), 2)
    before = who(first)
    first.close()
    federation = tiny_federation("solo")
    second = processes(federation, 2)
    assert who(second) == before
    expected, _ = final_model(federation, DeviceEngine(federation, "cpu"), tmp_path / "here")
    assert final_model(federation, second, tmp_path / "there")[0] == expected


def test_a_thousand_sites_run(tiny_federation, tmp_path, processes):
    few = tiny_federation("fedavg", sites=2, tau=0.003, rounds=1)
    one = few.sites["site-0"]
    sites = {
        f"site-{i}": replace(one, name=f"site-{i}", films=Films(one.films.images.clone(), one.films.labels.clone()))
        for i in range(1000)
    }
    federation = replace(few, sites=sites, coordinator=replace(few.coordinator, sites=tuple(sites)))
    expected, _ = final_model(federation, DeviceEngine(federation, "cpu"), tmp_path / "here")
    state, records = final_model(federation, processes(federation, 2), tmp_path / "there")
    assert [site.status for site in records[0].sites.values()].count("ok") == 3
    assert state == expected


def test_chunks_are_the_same_whatever_the_workers():
    assert chunks(6000) == [(0, 2500), (2500, 5000), (5000, 6000)]
    assert chunks(10) == [(0, 10)]


def assignments(federation, start, of_the_second_largest):
    return [Assignment(site, 1, 1.0, of_the_second_largest if site == "site-2" else start) for site in federation.sites]


def folders(folder):
    for name in ("there", "here"):
        (folder / name).mkdir()
    return folder / "there", folder / "here"
