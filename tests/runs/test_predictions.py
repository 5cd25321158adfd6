import numpy as np
import pandas as pd
import pytest

from fedpdc_med.common.errors import UserError
from fedpdc_med.runs import predictions
from fedpdc_med.runs.predictions import (
    TEXT_COLUMNS,
    called_class,
    classes_of,
    display_name,
    one_model,
    patient_codes,
    patients_of,
    probabilities,
    read_predictions,
    reported_split,
    select,
    true_class,
    validate,
)


def test_classes_keep_the_order_of_their_columns(frame_of):
    frame = frame_of(["normal"], ["covid-19"], classes=("tuberculosis", "normal", "covid-19"))
    assert classes_of(frame) == ["tuberculosis", "normal", "covid-19"]
    assert probabilities(frame).round(6).tolist() == [[0.1, 0.1, 0.8]]
    assert (true_class(frame).tolist(), called_class(frame).tolist()) == ([1], [2])


def test_a_sound_frame_is_accepted_also_with_category_columns(random_frame):
    frame = random_frame(60)
    validate(frame)
    validate(frame.astype(dict.fromkeys(("model", "split", "site", "label", "sex"), "category")))


def broken(change):
    return pytest.param(*change[1:], id=change[0])


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        broken(c)
        for c in (
            ("no column", lambda f: f.drop(columns=["patient", "sex"]), "no column patient, sex"),
            ("no classes", lambda f: f[[c for c in f.columns if not c.startswith("p:")]], "p:CLASS"),
            ("no rows", lambda f: f.iloc[:0], "no predictions"),
            ("NaN", lambda f: f.assign(**{"p:covid-19": np.float32("nan")}), "row 0 has no probability for covid-19"),
            ("sum", lambda f: f.assign(**{"p:normal": f["p:normal"] + np.float32(0.5)}), "sum to 1.500"),
            (
                "negative",
                lambda f: f.assign(**{"p:normal": np.float32(-0.5), "p:pneumonia": np.float32(1.4)}),
                "below 0",
            ),
            ("text for a number", lambda f: f.assign(**{"p:normal": "0.5"}), "p:normal must hold numbers"),
            ("unknown label", lambda f: f.assign(label="flu"), "label 'flu' has no column p:flu"),
            ("missing text", lambda f: f.assign(patient=None), "column patient must hold text"),
            ("number for text", lambda f: f.assign(site=3), "column site must hold text"),
            ("twice", lambda f: pd.concat([f, f]), "film-00000 appears twice"),
            ("column twice", lambda f: pd.concat([f, f[["sex"]]], axis=1), "column sex appears twice"),
        )
    ],
)
def test_what_is_wrong_with_a_frame_is_said_in_one_sentence(frame_of, spoil, says):
    with pytest.raises(UserError, match=says) as caught:
        validate(spoil(frame_of(["normal", "covid-19"], ["normal", "normal"])), "run-7/predictions.parquet")
    assert str(caught.value).startswith("run-7/predictions.parquet: ")
    assert "\n" not in str(caught.value)


def test_patients_are_told_apart_by_site_and_unnamed_ones_stand_alone():
    codes = patient_codes(np.array(["a", "a", "", "", "a"]), np.array(["x", "x", "x", "x", "y"]))
    assert codes[0] == codes[1]
    assert len(set(codes)) == 4
    assert codes.min() == 0 and codes.max() == 3


def test_patients_are_counted_alike_with_text_and_category_columns(random_frame):
    frame = random_frame(30, films_of_a_patient=3, sites=2)
    as_category = frame.astype({"patient": "category", "site": "category"})
    assert patients_of(frame).tolist() == patients_of(as_category).tolist() == [i // 3 for i in range(30)]


def test_selecting_combines_what_is_asked_for(frame_of):
    frame = frame_of(["normal"] * 4, ["normal"] * 4, model=["global", "global", "a", "a"], site=["a", "b", "a", "b"])
    assert select(frame, model="global", site="b")["film"].tolist() == ["film-00001"]
    assert len(select(frame, split="external")) == 0
    assert len(select(frame)) == 4


def test_models_are_not_mixed_by_mistake(frame_of):
    with pytest.raises(ValueError, match="2 models mixed"):
        one_model(frame_of(["normal"] * 2, ["normal"] * 2, model=["global", "a"]))


def test_the_reported_split_is_the_one_that_chose_nothing(frame_of):
    frame = frame_of(
        ["normal"] * 3, ["normal"] * 3, split=["weighting", "external", "holdout"], model=["global", "global", "a"]
    )
    assert reported_split(frame) == "external"
    with pytest.raises(UserError, match="finish the run"):
        reported_split(select(frame, model="a"))


def test_covid_is_written_as_clinicians_do():
    assert [display_name(name) for name in ("covid-19", "normal")] == ["COVID-19", "normal"]


# ---- files


def write(folder, rows, classes=2, **columns):
    """A file whose every row is the same."""
    frame = pd.DataFrame({name: pd.Series(["x"]).repeat(rows).array for name in TEXT_COLUMNS})
    chances = pd.DataFrame({f"p:{k}": np.full(rows, 1 / classes, np.float32) for k in range(classes)})
    frame.assign(**columns).join(chances).to_parquet(folder / "predictions.parquet", index=False)
    return folder / "predictions.parquet"


def why_not_read(file):
    with pytest.raises(UserError) as caught:
        read_predictions(file)
    return str(caught.value).removeprefix(f"predictions.parquet of {file.parent.name}")


def test_a_file_is_read_as_pandas_reads_it(tmp_path):
    file = write(tmp_path, 100_000, classes=25, film=[f"film-{k}" for k in range(100_000)])
    found = read_predictions(file)
    pd.testing.assert_frame_equal(found, pd.read_parquet(file))
    assert found.shape == (100_000, 35)


def test_a_small_file_that_would_fill_the_memory_is_not_unpacked(tmp_path, monkeypatch):
    many = write(tmp_path, 1_000_001)
    assert many.stat().st_size < 100_000
    assert why_not_read(many) == " has 1,000,001 predictions; a table of at most 1,000,000 can be opened"
    monkeypatch.setattr(predictions, "MOST_BYTES", 1_000_000)  # in place of files that unpack to a gigabyte
    long = write(tmp_path, 200, source="x" * 10_000)
    assert why_not_read(long) == " is too large to be opened: it has 2,001,800 bytes of text"
    wide = write(tmp_path, 2000, classes=90)
    assert why_not_read(wide) == " is too large to be opened: 2,000 predictions in 100 columns"


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ({"site": [3] * 5}, ": column site must hold text in every row"),
        ({"p:normal": ["x"] * 5}, ": column p:normal must hold numbers between 0 and 1"),
        ({"p:normal": [[0.5] * 1000] * 5}, ": column p:normal must hold numbers between 0 and 1"),
    ],
)
def test_a_column_of_another_kind_is_named_before_it_is_read(tmp_path, columns, says):
    assert why_not_read(write(tmp_path, 5, **columns)).startswith(says)


def test_a_file_that_is_no_table_is_damaged(tmp_path):
    file = write(tmp_path, 5)
    for content in (b"", b"PAR1 no parquet", file.read_bytes()[:-1], file.read_bytes()[4:]):
        file.write_bytes(content)
        assert "is corrupt; remove it, then make it again with: fedpdc resume" in why_not_read(file)
