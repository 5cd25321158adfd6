"""A reader opens the app, chooses runs and reads the numbers that evaluation computes."""

import json
import re

import pytest
from playwright.sync_api import expect

from fedpdc_med.evaluation.paired import compare
from fedpdc_med.evaluation.recall import per_class_recall, worst_class
from fedpdc_med.evaluation.sites import headline
from fedpdc_med.review.sections import PAGES
from fedpdc_med.runs.listing import open_run
from fedpdc_med.runs.predictions import select

BETTER = {"normal": (19, 20), "pneumonia": (17, 20), "covid-19": (18, 20), "tuberculosis": (15, 20)}
OUTSIDE = {"normal": (10, 20), "pneumonia": (8, 20), "covid-19": (9, 20), "tuberculosis": (2, 20)}
EVIL = "<img src=x onerror=alert(1)> **bold** [a](http://evil.test) www.evil.test :smile:"


@pytest.fixture(scope="module")
def runs(tmp_path_factory, write_run):
    folder = tmp_path_factory.mktemp("runs")
    write_run(folder / "run-b", BETTER)
    write_run(folder / "run-a", external=OUTSIDE, titles={"harbor": "Harbor General"})
    return folder


@pytest.fixture(scope="module")
def address(runs, serve):
    with serve(runs) as where:
        yield where


def test_worst_class_recall_on_the_overview_is_the_one_evaluation_computes(runs, address, page, choose):
    page.goto(address)
    expect(page.get_by_text("not a medical device").first).to_be_visible()
    choose(page, "Run", "run-b")
    expect(page.get_by_text("Run: run-b")).to_be_visible()
    choose(page, "Run", "run-a")
    numbers = headline(open_run(runs, "run-a").predictions)
    card = page.get_by_test_id("stColumn").filter(has_text="Worst-class recall")
    expect(card.get_by_role("heading")).to_have_text(f"{numbers.worst.value:.2f}")
    expect(card).to_contain_text(f"{numbers.worst.low:.2f} to {numbers.worst.high:.2f}")
    expect(card).to_contain_text("5 of 20 films classified correctly")
    fall = page.get_by_test_id("stColumn").filter(has_text="Macro recall at an external site")
    expect(fall.get_by_role("heading")).to_have_text(f"{numbers.drop.level:.2f}")
    expect(fall).to_contain_text(f"{numbers.drop.macro.value:.2f} lower than on held-out test films")


def test_the_recall_page_lists_the_worst_class_first(runs, address, page):
    page.goto(f"{address}/recall?run=run-a")
    worst = worst_class(per_class_recall(select(open_run(runs, "run-a").predictions, model="global", split="holdout")))
    first = page.get_by_role("table").first.get_by_role("row").nth(1)
    expect(first).to_contain_text(worst.name)
    expect(first).to_contain_text(f"{worst.correct}/{worst.total}")
    expect(first).to_contain_text(f"{worst.low:.2f} to {worst.high:.2f}")
    expect(page.locator(".js-plotly-plot")).to_have_count(4)


def test_another_choice_of_films_changes_the_numbers(address, page, choose):
    page.goto(f"{address}/recall?run=run-a")
    first = page.get_by_role("table").first.get_by_role("row").nth(1)
    expect(first).to_contain_text("5/20")
    choose(page, "Evaluate on", "External sites")
    expect(first).to_contain_text("2/20")


def test_two_runs_are_compared_film_by_film(runs, address, page, choose):
    page.goto(f"{address}/comparison?run=run-a")
    expect(page.get_by_text("Choose a second run")).to_be_visible()
    choose(page, "Compare with", "run-b")
    frames = [select(open_run(runs, name).predictions, model="global", split="holdout") for name in ("run-a", "run-b")]
    row = compare(*frames).by_class.set_index("class").loc["tuberculosis"]
    shown = page.get_by_role("row").filter(has_text="tuberculosis")
    expect(shown).to_contain_text(f"{row['difference']:+.2f}")
    expect(shown).to_contain_text(f"{row['p']:.3f}")
    page.get_by_role("link", name="Overview").click()
    expect(page.get_by_text("second run: 0.75 (tuberculosis)")).to_be_visible()  # the choice is kept


def test_every_page_opens_at_tablet_width_without_scrolling_sideways(address, page):
    page.set_viewport_size({"width": 768, "height": 1024})
    for one in PAGES:
        page.goto(f"{address}/{'' if one is PAGES[0] else one.name}?run=run-a")
        expect(page.get_by_role("heading", name=one.title, exact=True)).to_be_visible()
        expect(page.get_by_text("could not be displayed")).to_have_count(0)
        main = page.get_by_test_id("stMain")
        assert main.evaluate("element => element.scrollWidth <= element.clientWidth"), one.title


# Words of cards that stand on two lines; a hyphen is a place to break.
BROKEN_WORDS = r"""() => {
  const broken = [], range = document.createRange()
  for (const card of document.querySelectorAll("[data-testid=stColumn] [data-testid=stMarkdownContainer]")) {
    const walker = document.createTreeWalker(card, NodeFilter.SHOW_TEXT)
    while (walker.nextNode())
      for (const word of walker.currentNode.data.matchAll(/[^\s-]+/g)) {
        range.setStart(walker.currentNode, word.index)
        range.setEnd(walker.currentNode, word.index + word[0].length)
        if (range.getClientRects().length > 1) broken.push(word[0])
      }
  }
  return broken
}"""
# Axis titles that reach beyond their figure.
CUT_TITLES = """() => [...document.querySelectorAll(".js-plotly-plot")].flatMap(figure => {
  const edge = figure.getBoundingClientRect()
  return [...figure.querySelectorAll(".xtitle, .ytitle")].filter(title => {
    const box = title.getBoundingClientRect()
    return box.left < edge.left || box.right > edge.right
  }).map(title => title.textContent)
})"""


def test_in_a_narrow_window_no_word_is_broken_and_no_axis_title_cut(address, page):
    page.set_viewport_size({"width": 800, "height": 1000})
    for module in ("", "recall", "confusion", "operating", "calibration"):
        page.goto(f"{address}/{module}?run=run-b")  # no external site: a card says "not estimable"
        expect(page.locator(".js-plotly-plot .xtitle").first).to_be_visible()
        expect(page.get_by_test_id("stApp")).to_have_attribute("data-test-script-state", "notRunning")
        assert page.evaluate(BROKEN_WORDS) == [], module
        assert page.evaluate(CUT_TITLES) == [], module
        assert page.get_by_test_id("stSidebar").bounding_box()["width"] <= 0.3 * 800


def test_in_a_narrow_window_the_confusion_matrix_has_the_whole_width(address, page):
    page.set_viewport_size({"width": 800, "height": 1000})
    page.goto(f"{address}/confusion?run=run-a")
    expect(page.locator(".js-plotly-plot .xtitle")).to_be_visible()
    matrix = page.locator(".js-plotly-plot").bounding_box()
    mistakes = page.get_by_role("table").first.bounding_box()
    assert mistakes["y"] > matrix["y"] + matrix["height"]
    assert matrix["width"] / 4 > 100  # four classes, "100%" in a cell


def test_a_run_in_progress_grows_on_the_page_by_itself(tmp_path, write_run, serve, page):
    folder = write_run(tmp_path / "going", finished=False, rounds=1, planned=4)
    whole = write_run(tmp_path / "elsewhere" / "going")
    with serve(tmp_path) as address:
        page.goto(f"{address}/shaped?run=going")
        expect(page.get_by_text("In progress: 1 of 4 rounds completed")).to_be_visible()
        (folder / "rounds.jsonl").write_text((whole / "rounds.jsonl").read_text(encoding="utf-8"), encoding="utf-8")
        expect(page.get_by_text("In progress: 4 of 4 rounds completed")).to_be_visible()
        (folder / "predictions.parquet").write_bytes((whole / "predictions.parquet").read_bytes())
        expect(page.get_by_text("In progress")).to_have_count(0)
        expect(page.get_by_text("4 of 4").first).to_be_visible()


def test_text_of_a_run_stays_text_in_the_browser(tmp_path, write_run, serve, page):
    found = {EVIL: (1, 4), "normal": (3, 4), "b": (1, 4)}
    titles = {"harbor": EVIL, "hill": "<b>Hill</b>"}
    write_run(tmp_path / "a", found, titles=titles, missing={(1, "hill"): ("rejected", EVIL)})
    with serve(tmp_path) as address:
        for one in PAGES:
            page.goto(f"{address}/{'' if one is PAGES[0] else one.name}?run=a")
            expect(page.get_by_role("heading", name=one.title, exact=True)).to_be_visible()
            page.wait_for_function(
                "document.querySelectorAll('[data-testid=stSkeleton], [data-stale=true]').length == 0"
            )
            page.wait_for_timeout(500)
            assert page.locator("img[src='x']").count() == 0, one.title
            assert page.locator("a[href*=evil]").count() == 0, one.title
            assert page.get_by_test_id("stMain").locator("strong", has_text="bold").count() == 0, one.title
            if one.name in ("overview", "recall", "shaped"):
                expect(page.get_by_text(re.compile(re.escape("<img src=x onerror=alert(1)>"))).first).to_be_attached()


def test_the_app_answers_on_this_machine_only_and_sends_nothing_elsewhere(address, page):
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    for one in PAGES:
        page.goto(f"{address}/{'' if one is PAGES[0] else one.name}?run=run-a")
        expect(page.get_by_role("heading", name=one.title, exact=True)).to_be_visible()
        page.wait_for_timeout(500)
    outside = [url for url in asked if not url.startswith((address, "data:", "blob:"))]
    assert outside == [], json.dumps(outside)
