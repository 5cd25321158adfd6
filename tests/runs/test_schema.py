"""What the lines of a run say."""

from fedpdc_med.runs.schema import Round, SiteRound


def test_a_round_is_told_by_its_accuracy_its_time_and_who_was_left_out():
    sites = {name: SiteRound(status=status) for name, status in {"a": "ok", "b": "failed", "c": "absent"}.items()}
    record = Round(round=1, accuracy=0.8125, seconds=1.26, recall={}, sites=sites)
    assert record.in_short() == "accuracy 0.812, 1.3 s a round, left out: b"
    assert record.model_copy(update={"sites": {}}).in_short() == "accuracy 0.812, 1.3 s a round"
