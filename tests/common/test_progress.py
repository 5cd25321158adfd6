"""What a line of progress says."""

from fedpdc_med.common.progress import round_note


def test_a_round_is_told_by_its_accuracy_its_time_and_who_was_left_out():
    sites = {"north": {"status": "ok"}, "south": {"status": "failed"}, "west": {"status": "absent"}}
    record = {"accuracy": 0.8125, "seconds": 1.26, "sites": sites}
    assert round_note(record) == "accuracy 0.812, 1.3 s a round, left out: south"
    assert round_note({**record, "sites": {}}) == "accuracy 0.812, 1.3 s a round"
