"""`fedpdc report`: one page, no network, every number the one that `evaluation` computes, all text as text."""

import base64
import re
import subprocess
import sys
from html.parser import HTMLParser

import numpy as np

from fedpdc_med.evaluation.calibration import calibration
from fedpdc_med.evaluation.confusion import dangerous_cells
from fedpdc_med.evaluation.discrimination import discrimination
from fedpdc_med.evaluation.operating_points import choose_threshold, threshold_table
from fedpdc_med.evaluation.recall import per_class_recall
from fedpdc_med.evaluation.sites import headline
from fedpdc_med.imaging.store import read_store
from fedpdc_med.review.html_report import make_report
from fedpdc_med.review.sections.operating_points import usable
from fedpdc_med.review.signoff import model_hash, sign
from fedpdc_med.runs.listing import open_run
from fedpdc_med.runs.predictions import select

DECISIONS, RANKING = "Current decisions", "Does a film of a class get a higher probability than the others?"
ERRORS = "Errors (missed diseases with zero cases listed last)"
OUTSIDE = {"normal": (10, 20), "pneumonia": (8, 20), "covid-19": (9, 20), "tuberculosis": (2, 20)}


class Read(HTMLParser):
    """What a reader gets of a page: its text, tables by heading, and every element with its attributes."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.tables: dict[str, list[list[str]]] = {}
        self.text, self._heading, self._cell = "", "", None
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag == "table":
            self._table = self.tables.setdefault(self._heading, [])
        elif tag == "tr":
            self._table.append([])
        elif tag in ("td", "th", "h2", "h3", "h4"):
            self._cell = ""

    def handle_data(self, data):
        self.text += data
        if self._cell is not None:
            self._cell += data

    def handle_endtag(self, tag):
        if tag in ("td", "th"):
            self._table[-1].append(self._cell)
        elif tag in ("h2", "h3", "h4"):
            self._heading = self._cell
        if tag in ("td", "th", "h2", "h3", "h4"):
            self._cell = None


def report_of(root, name: str) -> tuple[str, Read]:
    html = make_report(open_run(root, name))
    return html, Read(html)


def test_every_number_is_the_one_that_evaluation_computes(tmp_path, write_run):
    write_run(tmp_path / "a", external=OUTSIDE)
    frame = open_run(tmp_path, "a").predictions
    mine = select(frame, model="global", split="holdout")
    _, page = report_of(tmp_path, "a")
    recall = per_class_recall(mine)
    assert [[row[0], row[2], row[3], row[1]] for row in page.tables["Recall of each class"][1:]] == [
        [
            {"covid-19": "COVID-19"}.get(row["class"], row["class"]),
            f"{row['recall']:.2f}",
            f"{row['low']:.2f} to {row['high']:.2f}",
            f"{row['correct']}/{row['total']}",
        ]
        for row in recall.to_dict("records")
    ]
    assert ["COVID-19", "18/20", "0.90", "0.70 to 0.97"] in [row[:4] for row in page.tables["Recall of each class"]]
    numbers = headline(frame)
    for estimate in (numbers.worst, numbers.macro):
        assert f"95% CI {estimate.low:.2f} to {estimate.high:.2f}" in page.text
    assert f"{numbers.drop.level:.2f}" in page.text
    assert f"{numbers.drop.macro.value:.2f} lower than on held-out test films" in page.text
    found = calibration(mine)
    assert all(f"{value:.3f}" in page.text for value in (found.brier, found.brier_of_prevalence, found.ece))
    areas = discrimination(mine)
    assert [row[2] for row in page.tables[RANKING][1:]] == [f"{auc:.2f}" for auc in areas["auc"]]
    weighting = select(frame, model="global", split="weighting")
    for row, label in zip(
        page.tables["All classes at their chosen thresholds"][1:], open_run(tmp_path, "a").classes, strict=True
    ):
        value = usable(choose_threshold(weighting, label).value)
        at = threshold_table(mine, label, [value]).iloc[0]
        assert row[1:3] == [f"{value:.3f}", f"{at['sensitivity']:.2f}"] and row[4] == f"{at['specificity']:.2f}"
    cells = dangerous_cells(mine)
    first = page.tables[ERRORS][1]
    assert first[:2] == [cells.loc[0, "name"], "15 of 20"]  # 5 of 20 tuberculosis films were classified correctly
    assert "0.45 (0.26 to 0.66), 9 of 20" in page.tables["Recall by site and class"][-1]


def test_errors_are_listed_in_the_order_that_their_title_says(tmp_path, write_run):
    # A wrong prediction is the next class: COVID-19 for pneumonia, normal for tuberculosis (the last).
    write_run(tmp_path / "a", {"normal": (4, 4), "pneumonia": (0, 4), "covid-19": (4, 4), "tuberculosis": (4, 4)})
    _, page = report_of(tmp_path, "a")
    assert [(row[0], row[1]) for row in page.tables[ERRORS][1:]] == [
        ("pneumonia predicted as COVID-19", "4 of 4"),
        ("pneumonia predicted as normal", "0 of 4"),
        ("COVID-19 predicted as normal", "0 of 4"),
        ("tuberculosis predicted as normal", "0 of 4"),
    ]


def test_missed_diseases_come_first_when_each_of_them_happened(tmp_path, write_run):
    write_run(tmp_path / "a", {"normal": (3, 4), "tuberculosis": (2, 4)})
    _, page = report_of(tmp_path, "a")
    rows = page.tables["Errors, missed diseases first"][1:]
    assert [row[0] for row in rows] == ["tuberculosis predicted as normal", "normal predicted as tuberculosis"]


def test_the_page_needs_no_network_and_no_script(tmp_path, write_run):
    write_run(tmp_path / "a")
    html, page = report_of(tmp_path, "a")
    assert not [tag for tag, _ in page.elements if tag in ("script", "link", "iframe", "object", "form", "base")]
    addresses = [attrs[key] for _, attrs in page.elements for key in ("src", "href") if key in attrs]
    assert len(addresses) >= 12 and all(address.startswith("data:image/svg+xml;base64,") for address in addresses)
    assert all(attrs["alt"] for tag, attrs in page.elements if tag == "img")
    assert "url(" not in html and "@import" not in html
    for address in addresses:
        picture = base64.b64decode(address.partition(",")[2]).decode()
        assert not re.search(r"<script|<image[^>]*http|onload", picture)
    assert str(tmp_path) not in html
    assert "not a medical device" in page.text


HOSTILE = ("<script>alert(1)</script>", "$\\frac{x}{$ & <b>", "--><img src=x onerror=alert(1)>", "{{ 7 * 7 }}")


def test_text_of_a_run_and_of_a_reviewer_is_text(tmp_path, write_run):
    classes = dict.fromkeys(HOSTILE, (3, 5))
    folder = write_run(tmp_path / "a", classes, titles={"harbor": HOSTILE[0], "hill": HOSTILE[2]})
    sign(folder, [HOSTILE[0]], "reject", HOSTILE[2], HOSTILE[0], dict.fromkeys(HOSTILE, HOSTILE[1]), model_hash(folder))
    _, page = report_of(tmp_path, "a")
    assert not [tag for tag, _ in page.elements if tag == "script"]
    assert not [attrs for _, attrs in page.elements if any(key.startswith("on") for key in attrs)]
    assert {row[0] for row in page.tables["Recall of each class"][1:]} == set(HOSTILE)
    row = next(row for row in page.tables[DECISIONS] if row[0] == HOSTILE[0])
    assert row[3:] == ["reject", HOSTILE[2], HOSTILE[0]]
    signed = page.tables["Decision history, newest first (1 decision)"][1]
    assert signed[1:6] == [HOSTILE[0], "reject", HOSTILE[2], HOSTILE[1], HOSTILE[0]]
    for _, attrs in page.elements:
        if "src" in attrs:
            picture = Read(base64.b64decode(attrs["src"].partition(",")[2]).decode())
            assert not [tag for tag, _ in picture.elements if tag in ("script", "img")]


def test_decisions_on_another_model_are_shown_as_no_longer_valid(tmp_path, write_run):
    folder = write_run(tmp_path / "a")
    sign(
        folder,
        ["normal", "covid-19"],
        "accept",
        "Dr. Ruth",
        "fine",
        {"normal": "19 of 20", "covid-19": "18 of 20"},
        model_hash(folder),
    )
    _, page = report_of(tmp_path, "a")
    decided = {row[0]: row for row in page.tables[DECISIONS][1:]}
    assert decided["COVID-19"][3:] == ["accept", "Dr. Ruth", "fine"]
    assert decided["tuberculosis"][3] == "not decided"
    (folder / "model.safetensors").write_bytes(b"another model")
    _, page = report_of(tmp_path, "a")
    assert page.tables[DECISIONS][1][3] == "no longer valid (accept, on another model)"


def test_what_a_run_does_not_have_is_left_out_with_a_sentence(tmp_path, write_run):
    write_run(tmp_path / "running", finished=False, rounds=2)
    _, page = report_of(tmp_path, "running")
    assert "In progress: 2 of 4 rounds" in page.text and "Recall of each class" not in page.tables
    write_run(tmp_path / "solo", method="solo", share=False)
    _, page = report_of(tmp_path, "solo")
    assert "there is no global model to report" in page.text and "the run has no global model" in page.text
    write_run(tmp_path / "nobody", {"normal": (5, 10), "pneumonia": (9, 10), "covid-19": (0, 0)})
    _, page = report_of(tmp_path, "nobody")
    assert ["COVID-19", "0/0", "not estimable", ""] in [row[:4] for row in page.tables["Recall of each class"]]
    assert "No reviewer has signed" in page.text
    write_run(tmp_path / "new", finished=False, rounds=0)
    assert "No round has been recorded yet" in report_of(tmp_path, "new")[1].text


def test_twenty_classes_fit(tmp_path, write_run):
    write_run(tmp_path / "a", {f"class {k:02d}": (k % 5, 5) for k in range(20)})
    _, page = report_of(tmp_path, "a")
    assert len(page.tables["Recall of each class"]) == 21
    assert "Not listed: " in page.text


def test_films_of_a_real_simulation_are_checked_for_shortcuts(simulated, monkeypatch):
    monkeypatch.setenv("FEDPDC_HOME", str(simulated))
    _, page = report_of(simulated / "runs", "tiny")
    assert "class from the shape" in page.text and "class from the border" in page.text
    sources = next(table for title, table in page.tables.items() if "source by label" in title)
    counts = np.array([row[1:] for row in sources[1:]], dtype=int)
    assert counts.sum() == len(read_store(simulated / "reference").films) + 15


def test_the_command_writes_the_page_and_a_mistake_is_one_line(tmp_path, write_run, mistake):
    run = write_run(tmp_path / "a")
    command = [sys.executable, "-m", "fedpdc_med.cli", "report", str(run), "--out", str(tmp_path / "page.html")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Report written" in done.stdout
    assert "Recall of each class" in Read((tmp_path / "page.html").read_text(encoding="utf-8")).tables
    (run / "review.json").write_text("{", encoding="utf-8")
    assert "review.json" in mistake("report", str(run))
    assert "no such folder" in mistake("report", str(tmp_path / "nowhere"))


def test_the_command_writes_through_no_link_in_the_run(tmp_path, write_run, mistake):
    run = write_run(tmp_path / "a")
    (tmp_path / "thesis.txt").write_text("years of work", encoding="utf-8")
    (run / "report.html").symlink_to(tmp_path / "thesis.txt")
    assert "report.html in the folder a is a link" in mistake("report", str(run))
    assert (tmp_path / "thesis.txt").read_text(encoding="utf-8") == "years of work"


def test_hospitals_of_one_title_stay_two(tmp_path, write_run):
    same = {"harbor": "City Hospital", "hill": "City Hospital"}
    write_run(tmp_path / "a", titles=same)
    _, read = report_of(tmp_path, "a")
    rows = [row[0] for row in read.tables["Recall by site and class"][1:]]
    assert rows == ["City Hospital (harbor)", "City Hospital (hill)"]
    assert [row[0] for row in read.tables["Sites and training films"][1:]] == rows


def test_the_worst_of_several_external_sites_is_said_to_be_that(tmp_path, write_run, another_outside):
    folder = write_run(tmp_path / "a", external=OUTSIDE)
    assert "the worst of" not in report_of(tmp_path, "a")[1].text
    another_outside(folder)
    read = report_of(tmp_path, "a")[1]
    assert "at island, not used in training" in read.text
    assert "the worst of 2 external sites" in read.text


def test_what_hospitals_did_not_report_is_not_a_number(tmp_path, write_run, edit_config):
    def as_federation(folder, silent):
        """As a coordinator writes it: no patients, and nothing of a hospital that never answered."""

        def change(config):
            for name, site in config["sites"].items():
                del site["patients"]
                if name == silent:
                    site |= {"films": 0, "training_films": {}}

        edit_config(folder, change)

    never = {(t, "hill"): ("failed", "no answer within 20 s") for t in range(1, 5)}
    as_federation(write_run(tmp_path / "a", missing=never), silent="hill")
    read = report_of(tmp_path, "a")[1]
    assert ["Participating sites", "1 site; no update from hill was used"] in read.tables["Model and training"]
    head, harbor, hill = read.tables["Sites and training films"]
    assert [dict(zip(head, row, strict=True))["patients"] for row in (harbor, hill)] == ["not reported", "not reported"]
    assert (harbor[1], hill[1]) == ("training", "no update used")
    assert (harbor[2], hill[2]) == ("60", "not reported")
    assert set(hill[4:]) == {""}
