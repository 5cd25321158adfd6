"""A reviewer at work: errors with their films, the threshold, sign-off, the report; in a real browser."""

import json
import re

import pytest
from playwright.sync_api import expect

from fedpdc_med.evaluation.confusion import confusion, films_of_cell
from fedpdc_med.evaluation.operating_points import threshold_table
from fedpdc_med.evaluation.recall import per_class_recall
from fedpdc_med.review.signoff import model_hash
from fedpdc_med.runs.listing import open_run
from fedpdc_med.runs.predictions import select


@pytest.fixture(scope="module")
def app(simulated, serve):
    with serve(simulated / "runs", FEDPDC_HOME=str(simulated)) as address:
        yield address


@pytest.fixture(scope="module")
def holdout(simulated):
    return select(open_run(simulated / "runs", "tiny").predictions, model="global", split="holdout")


def click_cell(page, row: int, column: int, classes: int) -> None:
    """In the middle of a cell of the confusion matrix, wherever it is drawn."""
    area = page.locator(".js-plotly-plot .nsewdrag").first
    area.scroll_into_view_if_needed()
    box = area.bounding_box()
    at = {"x": box["width"] * (column + 0.4) / classes, "y": box["height"] * (row + 0.4) / classes}
    area.hover(position=at)
    area.click(position=at)


def test_a_click_on_a_confusion_cell_shows_its_films_with_where_the_model_looked(page, app, holdout):
    counts = confusion(holdout)
    classes = list(counts.index)
    row = column = next(k for k in range(len(classes)) if counts.iat[k, k])  # the page opens with a mistake instead
    films = films_of_cell(holdout, classes[row], classes[column])
    page.goto(f"{app}/confusion")
    expect(page.get_by_role("heading", name=re.compile("predicted as .*: "))).to_be_visible()
    click_cell(page, row, column, len(classes))
    expect(
        page.get_by_role("heading", name=f"classified correctly: {counts.iat[row, column]} of {counts.iloc[row].sum()}")
    ).to_be_visible()
    first = page.get_by_test_id("stImage").first
    expect(first.locator("img")).to_be_visible()
    expect(page.get_by_text(f"Film {films.loc[0, 'film']}")).to_be_visible()
    expect(page.get_by_text(f"with probability {films.loc[0, 'confidence']:.2f}").first).to_be_visible()
    expect(page.get_by_text("where the model looked, not why")).to_be_visible()
    empty = next(((r, c) for r in range(len(classes)) for c in range(len(classes)) if not counts.iat[r, c]), None)
    if empty:
        click_cell(page, *empty, len(classes))
        expect(page.get_by_text("There are no films in this cell")).to_be_visible()


def test_numbers_move_with_the_threshold_and_the_page_is_not_loaded_again(page, app, holdout):
    page.goto(f"{app}/operating")
    slider = page.get_by_role("slider", name="Threshold")
    expect(slider).to_be_visible()
    page.evaluate("window.loadedOnce = true")
    heading = page.get_by_role("heading", name="All classes at their chosen thresholds").element_handle()
    for key, value in (("Home", 0.0), ("End", 1.0)):
        slider.press(key)
        row = threshold_table(holdout, "pneumonia", [value]).iloc[0]
        expect(
            page.get_by_text(f"{int(row['tp'])} of {int(row['tp'] + row['fn'])} films at or above the threshold")
        ).to_be_visible()
        expect(
            page.get_by_text(
                f"{int(row['tn'])} of {int(row['tn'] + row['fp'])} other films correctly below the threshold"
            )
        ).to_be_visible()
    assert page.evaluate("window.loadedOnce") is True
    assert heading.evaluate("node => node.isConnected")  # the rest of the page was not drawn again


def test_a_reviewer_signs_off_and_downloads_a_report_that_says_so(page, app, simulated, holdout, choose, tmp_path):
    folder = simulated / "runs" / "tiny"
    (folder / "review.json").unlink(missing_ok=True)
    page.goto(f"{app}/signoff")
    page.get_by_role("button", name="Sign", exact=True).click()
    expect(page.get_by_text("choose at least one class")).to_be_visible()
    choose(page, "Classes", "COVID-19")
    page.keyboard.press("Escape")
    page.get_by_text("accept with conditions", exact=True).click()
    page.get_by_label("Your name").fill("Dr. <b>Ruth</b>")
    page.get_by_label("Comment or conditions").fill("Adults only.")
    page.get_by_role("button", name="Sign", exact=True).click()
    expect(page.get_by_text("Signed: accept with conditions, COVID-19.")).to_be_visible()
    expect(page.get_by_role("cell", name="Dr. <b>Ruth</b>").first).to_be_visible()
    (decision,) = json.loads((folder / "review.json").read_text(encoding="utf-8"))["decisions"]
    assert (decision["label"], decision["comment"]) == ("covid-19", "Adults only.")
    assert decision["model_sha256"] == model_hash(folder)
    expect(page.get_by_test_id("stApp")).to_have_attribute("data-test-script-state", "notRunning")
    with page.expect_download() as download:
        page.get_by_role("button", name="Download the report").click()
    assert download.value.suggested_filename == "report-tiny.html"
    download.value.save_as(tmp_path / "report.html")
    report = page.context.browser.new_context(java_script_enabled=False, offline=True).new_page()
    report.goto((tmp_path / "report.html").as_uri())
    expect(report.get_by_role("cell", name="Dr. <b>Ruth</b>")).to_have_count(2)  # the current decision and the history
    worst = per_class_recall(holdout).iloc[0]
    expect(report.locator(".number b").first).to_have_text(f"{worst['recall']:.2f}")
    loaded = report.locator("figure img").evaluate_all("all => all.map(img => img.naturalWidth)")
    assert len(loaded) >= 12 and all(width > 0 for width in loaded)
