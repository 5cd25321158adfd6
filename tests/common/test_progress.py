"""Progress as plain lines, where nobody watches a terminal."""

import pytest

from fedpdc_med.common import progress as module
from fedpdc_med.common.progress import minutes, progress


def test_lines_say_what_is_done_and_how_long_the_rest_takes(monkeypatch, capsys):
    now = [0.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    with progress("training", 20, done=10) as step:
        for seconds in (5.0, 70.0, 72.0, 140.0):
            now[0] = seconds
            step(1, "accuracy 0.5")
    assert capsys.readouterr().err.splitlines() == [
        "training: 12/20 accuracy 0.5, 5 minutes left",  # 2 rounds in 70 s, so 8 in 280 s
        "training: 14/20 accuracy 0.5, 4 minutes left",  # 4 in 140 s, 6 in 210 s
    ]


@pytest.mark.parametrize(
    ("seconds", "said"), [(20, "1 minute"), (90.1, "2 minutes"), (3600, "60 minutes"), (9000, "2.5 hours")]
)
def test_time_in_words(seconds, said):
    assert minutes(seconds) == said
