"""Pages about films: errors, operating point, calibration, shortcuts, sign-off; drawn by Streamlit's test runner."""

import json
import re
import shutil

import pandas as pd
import pytest

from fedpdc_med.review.signoff import model_hash
from fedpdc_med.runs.listing import open_run
from fedpdc_med.runs.schema import BenchmarkRun

MINE = ("confusion", "operating", "calibration", "shortcuts", "signoff")


def test_errors_names_the_dangerous_cells_and_shows_the_worst_first(tmp_path, write_run, draw):
    write_run(tmp_path / "a")
    page = draw(tmp_path, "confusion")
    # 15 of 20 tuberculosis films are predicted as the next class, which is normal again.
    assert page.table("error").loc[0].tolist() == [
        "tuberculosis predicted as normal",
        "15 of 20",
        "0.75 (0.53 to 0.89)",
    ]
    assert page.test.main.selectbox[0].value == ("tuberculosis", "normal")
    assert "tuberculosis predicted as normal: 15 of 20" in page.text
    assert "Page (1 to 3)" in [as_read(box.label) for box in page.test.main.number_input]


def test_errors_of_films_that_are_elsewhere_say_so_and_still_list_them(tmp_path, write_run, draw):
    write_run(tmp_path / "a")
    text = draw(tmp_path, "confusion").text
    assert "films of the public reference set are not on this machine" in text
    assert "Film holdout-reference-0065" in text and str(tmp_path) not in text


def test_errors_shows_another_cell_when_one_is_chosen(tmp_path, write_run, draw):
    write_run(tmp_path / "a")
    page = draw(tmp_path, "confusion")
    page.test.main.selectbox[0].set_value(("covid-19", "covid-19")).run()
    assert "COVID-19 classified correctly: 18 of 20" in page.text


def test_errors_shows_real_films_beside_where_the_model_looked(simulated, monkeypatch, draw):
    monkeypatch.setenv("FEDPDC_HOME", str(simulated))
    page = draw(simulated / "runs", "confusion")
    assert len(page.test.main.get("image")) >= 1
    assert "where the model looked, not why" in page.text
    assert "not on this machine" not in page.text and "no Grad-CAM map" not in page.text


def test_operating_point_is_chosen_on_other_films_than_those_reported(tmp_path, write_run, draw):
    write_run(tmp_path / "a")
    page = draw(tmp_path, "operating")
    assert "chosen on the weighting films" in page.text
    # A film has 0.8 for the class that it is predicted as and 0.067 for every other; above 0.8 there is none.
    assert page.table("threshold")["threshold"].tolist()[1] == "0.800"
    assert page.test.main.slider[0].value == 0.8
    local = draw(tmp_path, "operating", split="weighting").text
    assert "chosen on the local test films" in local


def test_operating_numbers_move_with_slider_and_prevalence(tmp_path, write_run, draw):
    write_run(tmp_path / "a")
    page = draw(tmp_path, "operating")
    page.test.main.slider[0].set_value(0.5).run()
    page.test.main.number_input[-1].set_value(50.0).run()
    assert re.findall(r"### (\S+)\n.*?(\S+ to \S+)", page.text) == [
        ("0.80", "0.58 to 0.92"),  # 16 of 20 films found, with Wilson's interval
        ("0.98", "0.91 to 1.00"),  # of 60 others one normal film is predicted as pneumonia
        ("0.98", "0.87 to 1.00"),  # PPV 0.8 / (0.8 + 1/60); the bounds from both lower and from both upper ends
        ("0.83", "0.69 to 0.93"),  # NPV 59/60 / (59/60 + 0.2)
    ]
    assert "16 of 20 films at or above the threshold" in page.text and "at 50% prevalence" in page.text


def test_a_sensitivity_can_be_asked_for(tmp_path, write_run, draw):
    write_run(tmp_path / "a")
    page = draw(tmp_path, "operating")
    page.test.main.selectbox[1].set_value("target sensitivity").run()
    # 0.9 of the films: at 0.8 there are 16 of 20 of pneumonia, 5 of tuberculosis, but 18 of COVID-19 and 19 of normal.
    assert page.test.main.slider[0].value == 0.066
    thresholds = page.table("sensitivity").set_index("class")["threshold"]
    assert thresholds[["pneumonia", "tuberculosis", "COVID-19", "normal"]].tolist() == ["0.066"] * 2 + ["0.800"] * 2


def test_calibration_shows_what_evaluation_counts(tmp_path, write_run, draw):
    write_run(tmp_path / "a")
    page = draw(tmp_path, "calibration")
    # Every film is predicted with 0.8 and 58 of 80 are right: |0.8 - 0.725| = 0.075.
    assert "### 0.075" in page.text
    assert page.table("AUC")["films of the class"].tolist() == ["20 of 80"] * 4
    page.test.main.selectbox[0].set_value("covid-19").run()
    assert "Expected calibration error of COVID-19" in page.text


def test_shortcuts_says_what_was_not_checked_and_suppresses_small_cells(tmp_path, write_run, draw):
    write_run(tmp_path / "a", {"normal": (40, 45), "pneumonia": (9, 10)})
    page = draw(tmp_path, "shortcuts")
    assert "not on this machine, so site, border and shape could not be checked" in page.text
    # 10 films of pneumonia, 5 of each sex: fewer than ten patients, so nothing of that column is shown.
    assert page.table("sex")["pneumonia"].tolist() == ["suppressed", "suppressed"]
    assert "fewer than 10 patients" in page.text


def test_shortcuts_of_real_films_have_a_verdict(simulated, monkeypatch, draw):
    monkeypatch.setenv("FEDPDC_HOME", str(simulated))
    page = draw(simulated / "runs", "shortcuts")
    shown = " ".join(
        as_read(box.value) for kind in ("error", "warning", "success", "info") for box in getattr(page.test.main, kind)
    )
    assert "class from the shape" in shown and "class from the border" in shown and "source by label" in shown


def signed(page, labels=("covid-19",), verdict="accept", name="Dr. Ruth", comment=""):
    page.test.main.multiselect[0].set_value(list(labels))
    page.test.main.radio[0].set_value(verdict)
    page.test.main.text_input[0].set_value(name)
    page.test.main.text_area[0].set_value(comment)
    page.test.main.button[0].click().run()


def test_signing_off_is_stored_beside_the_run_and_shown(tmp_path, write_run, draw):
    folder = write_run(tmp_path / "a")
    page = draw(tmp_path, "signoff")
    assert page.table("decision")["decision"].tolist() == ["not decided"] * 4
    hostile = "<img src=x onerror=alert(1)> **bold** [link](http://x) $x$"
    signed(page, ("covid-19", "normal"), "accept with conditions", hostile, hostile)
    assert "Signed: accept with conditions, COVID-19, normal" in as_read(page.test.main.success[0].value)
    stored = json.loads((folder / "review.json").read_text(encoding="utf-8"))["decisions"]
    assert [(one["label"], one["reviewer"]) for one in stored] == [("covid-19", hostile), ("normal", hostile)]
    assert stored[0]["model_sha256"] == model_hash(folder)
    table = page.table("decision").set_index("class")
    assert table.loc["COVID-19", ["decision", "by", "comment"]].tolist() == ["accept with conditions", hostile, hostile]
    assert table.loc["tuberculosis", "decision"] == "not decided"
    raw = page.test.main.table[0].value.to_numpy().ravel()
    assert not [cell for cell in raw if re.search(r"(?<!\\)[<*\[$]", str(cell))]  # escaped, so shown as text


def test_a_model_is_signed_off_on_the_reported_films_whatever_is_looked_at(tmp_path, write_run, draw):
    folder = write_run(tmp_path / "a")
    page = draw(tmp_path, "signoff", split="local")
    assert page.table("decision").set_index("class").loc["COVID-19", "correct"] == "18 of 20"
    signed(page)
    stored = json.loads((folder / "review.json").read_text(encoding="utf-8"))["decisions"]
    assert stored[0]["seen"] == "recall 0.90, 18 of 20 held-out test films"


def test_numbers_that_changed_while_the_page_was_open_cannot_be_signed(tmp_path, write_run, draw):
    folder = write_run(tmp_path / "a")
    page = draw(tmp_path, "signoff")
    (folder / "model.safetensors").write_bytes(b"another model")
    signed(page)
    assert not (folder / "review.json").exists()
    assert any("have changed since you opened" in as_read(box.value) for box in page.test.main.warning)
    # The form is that of the new model, and empty.
    assert page.test.main.radio[0].value is None
    signed(page)
    (decision,) = json.loads((folder / "review.json").read_text(encoding="utf-8"))["decisions"]
    assert decision["model_sha256"] == model_hash(folder)


def test_other_films_of_the_same_model_are_looked_at_before_they_are_signed(tmp_path, write_run, draw):
    folder = write_run(tmp_path / "a")
    page = draw(tmp_path, "signoff")
    frame = pd.read_parquet(folder / "predictions.parquet")
    frame.drop(index=frame.index[frame["split"] == "holdout"][:5]).to_parquet(folder / "predictions.parquet")
    signed(page)
    assert any("numbers have changed since you opened this page" in error for error in page.errors)
    assert not (folder / "review.json").exists()


def test_the_form_is_empty_again_once_signed(tmp_path, write_run, draw):
    write_run(tmp_path / "a")
    page = draw(tmp_path, "signoff")
    signed(page, comment="as shown")
    form = page.test.main
    assert (form.multiselect[0].value, form.radio[0].value, form.text_area[0].value) == ([], None, "")
    assert form.text_input[0].value == "Dr. Ruth"


def test_reviewers_who_disagree_are_both_shown(tmp_path, write_run, draw):
    write_run(tmp_path / "a")
    page = draw(tmp_path, "signoff")
    signed(page, verdict="reject", name="Dr. Otto")
    signed(page)
    rows = page.table("decision").set_index("class").loc["COVID-19", ["decision", "by"]].to_numpy().tolist()
    assert rows == [["reject", "Dr. Otto"], ["accept", "Dr. Ruth"]]
    assert any("Reviewers disagree on: COVID-19." in as_read(box.value) for box in page.test.main.warning)


def test_an_incomplete_signature_is_refused_with_a_sentence(tmp_path, write_run, draw):
    folder = write_run(tmp_path / "a")
    page = draw(tmp_path, "signoff")
    signed(page, name=" ")
    assert any("enter your name" in error for error in page.errors)
    assert not (folder / "review.json").exists()


def test_a_decision_on_another_model_is_shown_as_no_longer_valid(tmp_path, write_run, draw):
    folder = write_run(tmp_path / "a")
    signed(draw(tmp_path, "signoff"))
    (folder / "model.safetensors").write_bytes(b"another model")
    page = draw(tmp_path, "signoff")
    assert "no longer valid (accept, on another model)" in page.table("decision")["decision"].tolist()
    assert any("another model do not apply" in as_read(box.value) for box in page.test.main.warning)


def test_a_run_without_a_global_model_cannot_be_signed_off_and_a_damaged_file_is_a_sentence(tmp_path, write_run, draw):
    write_run(tmp_path / "solo", method="solo", share=False)
    assert "nothing to sign off" in draw(tmp_path, "signoff").text
    (write_run(tmp_path / "z") / "review.json").write_text("{", encoding="utf-8")
    assert any("review.json" in error for error in draw(tmp_path, "signoff", run="z").errors)


@pytest.mark.parametrize("module", MINE)
@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("a class with no cases", {"found": {"normal": (5, 10), "pneumonia": (9, 10), "covid-19": (0, 0)}}),
        ("one film", {"found": {"normal": (1, 1), "covid-19": (0, 0)}}),
        ("site models only", {"method": "solo", "share": False}),
    ],
)
def test_every_page_draws_every_kind_of_run_without_an_error(tmp_path, write_run, draw, module, name, how):
    write_run(tmp_path / "a", **how)
    page = draw(tmp_path, module)
    assert page.errors == [], name


def test_a_benchmark_has_no_other_films_and_no_shortcut_checks(tmp_path, write_run, draw):
    folder = write_run(tmp_path / "a", kind=BenchmarkRun)
    frame = open_run(tmp_path, "a").predictions
    frame[frame["split"] == "holdout"].assign(split="test", site="").to_parquet(folder / "predictions.parquet")
    page = draw(tmp_path, "operating")
    assert "You set this threshold" in page.text and "choose a threshold without bias" in page.text
    assert "benchmark" in draw(tmp_path, "shortcuts").text
    assert draw(tmp_path, "confusion").errors == []


def test_films_of_a_run_that_came_alone_are_not_shown(simulated, tmp_path, monkeypatch, draw):
    monkeypatch.setenv("FEDPDC_HOME", str(tmp_path / "empty"))
    shutil.copytree(simulated / "runs", tmp_path / "elsewhere" / "runs")
    page = draw(tmp_path / "elsewhere" / "runs", "confusion")
    assert "not on this machine" in page.text and not page.test.main.get("image")


def as_read(text: object) -> str:
    return str(text).replace("\\", "").replace("\u2060", "")


def test_a_threshold_that_could_not_be_chosen_is_the_readers_own(tmp_path, write_run, draw):
    """No weighting film of pneumonia: the slider stands at 0.5, which nothing has chosen."""
    file = write_run(tmp_path / "a") / "predictions.parquet"
    frame = pd.read_parquet(file)
    frame[(frame["split"] != "weighting") | (frame["label"] != "pneumonia")].to_parquet(file, index=False)
    page = draw(tmp_path, "operating")
    assert page.test.main.slider[0].value == 0.5
    assert "You set this threshold" in page.text
    assert "chosen on" not in charts(page)
    page.test.main.selectbox[0].set_value("covid-19").run()
    assert "You set this threshold" not in page.text and "chosen on" in charts(page)


def charts(page):
    return "".join(chart.proto.spec for chart in page.test.main.get("plotly_chart"))
