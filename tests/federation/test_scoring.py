"""What labelled films say of a model, on paper."""

import numpy as np

from fedpdc_med.federation.scoring import Score, score


def test_accuracy_and_recall_by_hand():
    """Of two a one is right, of one b it is, and there is no c."""
    probabilities = np.array([[0.9, 0.1, 0.0], [0.2, 0.8, 0.0], [0.1, 0.6, 0.3]])
    assert score(np.array([0, 0, 1]), probabilities, ["a", "b", "c"]) == Score(2 / 3, {"a": 0.5, "b": 1.0, "c": None})


def test_the_worst_class_is_one_that_has_films():
    assert Score(0.5, {"a": 0.4, "b": None, "c": 0.7}).worst == 0.4
    assert Score(0.0, {"a": 0.0, "b": None}).worst == 0
    assert Score(0.5, {"a": None}).worst is None
