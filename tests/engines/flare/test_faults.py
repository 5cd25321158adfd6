"""Hospitals that answer wrongly or die, a coordinator that dies: real processes, killed by their ids."""

import pytest

from fedpdc_med.runs.directory import read_run


@pytest.fixture(autouse=True)
def well_behaved_again(federation):
    yield
    federation.order({})


def west(run):
    return [(record.sites["west"].status, record.sites["west"].reason) for record in run.rounds]


def test_wrong_answers_are_rejected_with_a_reason_and_the_run_goes_on(federation, tmp_path):
    federation.order({1: "nan", 2: "shape", 3: "huge", 4: "name", 5: "smuggle"})
    run = federation.run(federation.begin(tmp_path / "wrong", rounds=6), rounds_per_job=6)
    found = west(run)
    assert [status for status, _ in found] == ["rejected"] * 4 + ["failed", "ok"]
    for (_, reason), word in zip(found, ["not finite", "shape", "bytes", "another site", "filter"], strict=False):
        assert word in reason
    for record in run.rounds:
        assert record.sites["north"].status == record.sites["south"].status == "ok"


def test_a_hospital_that_dies_in_mid_round_is_left_out_and_takes_part_in_the_next_job(federation, tmp_path):
    federation.order({2: "slow"})
    died_after = []

    def on_round(run):
        if federation.in_mid_round:
            died_after.append(len(read_run(run.folder).rounds))
            federation.parties.kill("west")
            federation.order({})
            federation.start("west")

    run = federation.run(federation.begin(tmp_path / "death", rounds=5), on_round, rounds_per_job=3, deadline=20)
    assert died_after == [1]
    assert [status for status, _ in west(run)] == ["ok", "failed", "failed", "ok", "ok"]
    reasons = [reason for _, reason in west(run)]
    assert "no answer within 20 s" in reasons[1]
    assert "still away" in reasons[2]
    seconds = [record.seconds for record in run.rounds]
    assert seconds[1] >= 20 and seconds[2] < 20  # waited for once, not again


def test_a_coordinator_that_dies_goes_on_from_its_checkpoint_to_the_same_bits(federation, tmp_path):
    federation.order({3: "slow"})
    died_after = []

    def on_round(run):
        if federation.in_mid_round:
            died_after.append(len(read_run(run.folder).rounds))
            federation.parties.kill("coordinator")
            federation.order({})
            federation.start("coordinator")

    run = federation.run(federation.begin(tmp_path / "restart", "moon", rounds=4), on_round, rounds_per_job=4)
    assert died_after == [2]
    assert [record.round for record in run.rounds] == [1, 2, 3, 4]
    assert [status for status, _ in west(run)] == ["ok"] * 4
    undisturbed = federation.undisturbed(tmp_path / "undisturbed", "moon", 4)
    assert run.model_file.read_bytes() == undisturbed.model_file.read_bytes()
