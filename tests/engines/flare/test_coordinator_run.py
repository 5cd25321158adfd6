"""One run, one writer, one reference set: what the coordinator refuses before a round starts."""

import subprocess
import sys
from dataclasses import replace

import pytest

from fedpdc_med.common.errors import UserError, WorkFailed
from fedpdc_med.engines.flare.controller import run_of
from fedpdc_med.engines.flare.coordinator_run import check_classes, check_reference, new_name, start_run
from fedpdc_med.hospitals.build import plan_for
from fedpdc_med.methods import make_method

HOLD = """import sys, time
from pathlib import Path
from fedpdc_med.common.files import only_writer
with only_writer(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def begin(sources, tmp_path):
    def made(overwrite=False):
        plan = plan_for(make_method("fedavg"), sources.reference, rounds=3, model="cnn", run=new_name())
        return start_run(tmp_path / "run", plan, dict.fromkeys(sources.stores, ""), sources.reference, overwrite)

    return made


def test_a_second_job_of_a_run_is_refused_until_the_first_is_gone(begin, sources):
    run = begin()
    plan = run.plan
    command = [sys.executable, "-c", HOLD, str(run.folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as first:
        assert first.stdout.readline() == "held\n"
        with pytest.raises(UserError, match="another command is writing the run 'run'"), run_of(run.folder, plan):
            pass
        with pytest.raises(UserError, match="another command"):
            begin(overwrite=True)
        first.kill()
    with run_of(run.folder, plan):
        pass
    assert begin(overwrite=True).plan.run != plan.run


def test_a_job_of_a_run_that_was_replaced_is_refused(begin, sources):
    plan = begin().plan
    run = begin(overwrite=True)
    with pytest.raises(UserError, match="was replaced"), run_of(run.folder, plan):
        pass


def test_a_run_that_cannot_be_written_is_a_sentence(begin, sources):
    """A folder in place of the lock file stands for what the coordinator's account may not open."""
    run = begin()
    plan = run.plan
    (run.folder / "job.lock").mkdir()
    with pytest.raises(WorkFailed, match=r"cannot use .*job\.lock"), run_of(run.folder, plan):
        pass
    (run.folder / "job.lock").rmdir()
    with pytest.raises(WorkFailed, match="sudo -u fedpdc"), run_of(run.folder, plan):
        raise PermissionError(13, "Permission denied", str(run.rounds_file))


def test_a_run_goes_on_with_its_own_reference_set_only(begin, sources):
    run, reference = begin(), sources.reference
    check_reference(run.config, reference)
    store = replace(reference.store, info={**reference.store.info, "manifest_sha256": "f" * 64})
    with pytest.raises(UserError, match="not the one this run started with"):
        check_reference(run.config, replace(reference, store=store))


def test_a_class_that_the_kits_do_not_know_is_refused_before_anyone_trains(sources):
    check_classes(sources.reference, ("normal", "pneumonia", "covid-19", "tuberculosis"))
    with pytest.raises(UserError, match="films of covid-19, which"):
        check_classes(sources.reference, ("normal", "pneumonia"))
