import numpy as np
import pandas as pd
import pytest

from fedpdc_med.evaluation.confounding import classes_with_own_source, corrected_v, cramers_v, source_by_label


def test_cramers_v_on_paper():
    table = pd.DataFrame([[10, 20], [20, 10]])
    assert cramers_v(table) == pytest.approx(1 / 3)  # chi² = 60 (100 - 400)² / 30⁴ = 6.67; sqrt(6.67 / 60)
    # Bergsma: phi² = 1/9 - 1/59 over 2 - 1/59 - 1
    assert corrected_v(table) == pytest.approx(np.sqrt((1 / 9 - 1 / 59) / (1 - 1 / 59)))


def test_a_class_with_a_source_of_its_own_raises_the_alarm():
    finding = source_by_label(
        np.repeat(["nih", "case-reports"], [40, 20]), np.repeat(["normal", "pneumonia", "covid-19"], 20)
    )
    assert finding.verdict == "alarm"
    assert finding.table.loc["nih"].to_dict() == {"covid-19": 0, "normal": 20, "pneumonia": 20}
    assert (
        "V 0.99" in finding.sentence and "COVID-19: all films come from sources with no other class" in finding.sentence
    )


@pytest.mark.parametrize(
    ("of_100", "verdict", "words"),
    [
        (95, "alarm", "V 0.90 (bias-corrected): the source almost determines the class"),
        (80, "alarm", "V 0.60 (bias-corrected): source and class are strongly associated"),
        (70, "watch", "V 0.39 (bias-corrected): source and class are associated"),
    ],
)
def test_the_sentence_claims_no_more_than_the_strength_of_the_tie(of_100, verdict, words):
    # Two sources of 100 films; of the classes one holds `of_100` to the rest, the other the rest to `of_100`: V is
    # their difference over 100.
    labels = np.repeat(["normal", "covid-19", "covid-19", "normal"], [of_100, 100 - of_100, of_100, 100 - of_100])
    finding = source_by_label(np.repeat(["a", "b"], 100), labels)
    assert finding.verdict == verdict and words in finding.sentence


def test_the_same_mix_at_every_source_is_fine():
    finding = source_by_label(np.repeat(["a", "b"], 40), np.tile(["normal", "covid-19"], 40))
    assert finding.verdict == "fine" and "nothing else" not in finding.sentence


def test_many_small_sources_do_not_alarm_by_chance():
    verdicts, plain = [], []
    for seed in range(20):
        generator = np.random.default_rng(seed)
        finding = source_by_label(generator.integers(12, size=60).astype(str), generator.choice(["a", "b", "c"], 60))
        verdicts.append(finding.verdict)
        plain.append(cramers_v(finding.table))
    assert "alarm" not in verdicts and verdicts.count("fine") >= 17
    assert np.mean(plain) > 0.35  # what the uncorrected V would have made of it


def test_own_source_means_no_film_of_it_elsewhere():
    table = pd.DataFrame({"normal": [9, 0, 3], "covid-19": [0, 5, 1], "tuberculosis": [0, 0, 0]})
    assert classes_with_own_source(table) == []
    assert classes_with_own_source(table.iloc[:2]) == ["normal", "covid-19"]


def test_one_source_cannot_be_compared():
    assert source_by_label(np.array(["a", "a"]), np.array(["normal", "covid-19"])).verdict == "not estimable"
    assert source_by_label(np.array([]), np.array([])).verdict == "not estimable"
