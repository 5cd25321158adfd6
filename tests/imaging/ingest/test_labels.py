"""Label tables."""

import pytest

from fedpdc_med.common.errors import UserError
from fedpdc_med.imaging.classes import CLASSES, class_of
from fedpdc_med.imaging.ingest.labels import one_label, read_labels
from fedpdc_med.imaging.records import Reason, Refused


def table(tmp_path, text: str, encoding="utf-8"):
    path = tmp_path / "labels.csv"
    path.write_bytes(text.encode(encoding))
    return path


def test_films_are_found_by_path_or_uid_and_labels_by_any_of_their_names(tmp_path):
    labels = read_labels(table(tmp_path, "film,label\na/1.dcm,Normal\n1.2.3,COVID-19\nb.dcm,No Finding\n"))
    assert labels.of("a/1.dcm", "9.9") == "normal"
    assert labels.of("x.dcm", "1.2.3") == "covid-19"
    assert labels.of("b.dcm", "") == "normal"


def test_a_table_as_a_spreadsheet_on_windows_writes_it(tmp_path):
    labels = read_labels(table(tmp_path, "film;label;note\r\na\\1.dcm;pneumonia;x\r\n", "utf-8-sig"))
    assert labels.of("a/1.dcm") == "pneumonia"


def test_no_label_and_unknown_label_are_told_apart_by_line_and_never_quoted(tmp_path):
    labels = read_labels(table(tmp_path, "film,label\na.dcm,Jane Doe\nb.dcm,\n"))
    for film, reason, detail in [
        ("a.dcm", Reason.UNKNOWN_LABEL, "line 2 of the label table"),
        ("b.dcm", Reason.NO_LABEL, "line 3 of the label table"),
        ("c.dcm", Reason.NO_LABEL, ""),
    ]:
        with pytest.raises(Refused) as refusal:
            labels.of(film)
        assert (refusal.value.reason, refusal.value.detail) == (reason, detail)


@pytest.mark.parametrize(
    "text, message",
    [
        ("film,class\na,normal\n", "no column label"),
        ("", "no column film and label"),
        ("film,label,label\na,normal,tuberculosis\n", "two columns label"),
        ('film,label\n"a,normal\nb,normal\n', "line 3 or an earlier line cannot be read"),
        ('film,label\n"a"b,normal\n', "line 2 or an earlier line cannot be read"),
        ("film,label\na,normal\na,pneumonia\n", "lines 2 and 3 give the same film two labels"),
    ],
)
def test_a_table_with_a_mistake_is_an_error_that_says_where(tmp_path, text, message):
    with pytest.raises(UserError, match=message):
        read_labels(table(tmp_path, text))


def test_a_missing_table_or_one_in_another_encoding_is_an_error_without_a_path(tmp_path):
    with pytest.raises(UserError) as missing:
        read_labels(tmp_path / "nowhere.csv")
    assert str(tmp_path) not in str(missing.value)
    with pytest.raises(UserError, match="UTF-8"):
        read_labels(table(tmp_path, "film,label\nä,normal\n", "latin-1"))


def test_one_class_for_all(tmp_path):
    assert one_label("TB").of("anything") == "tuberculosis"
    with pytest.raises(UserError, match="known classes are normal, pneumonia"):
        one_label("flu")


def test_every_class_is_its_own_name():
    assert [class_of(label) for label in CLASSES] == list(CLASSES)
    assert class_of("Viral Pneumonia") == class_of("Lung_Opacity") == "pneumonia"
    assert class_of("todo") is None


def test_what_spreadsheets_and_other_systems_do_to_a_table(tmp_path):
    labels = read_labels(table(tmp_path, "sep=;\nFilm;LABEL\nBr\u00fcll.dcm;COVID\u201119\n"))
    assert labels.of("Bru\u0308ll.dcm") == "covid-19"  # a file name with the accent as a character of its own


def test_spaces_before_quotes_odd_line_ends_in_a_cell_and_rows_without_a_film(tmp_path):
    text = 'film,label\n"a.dcm", "normal"\nb\u2028\u0085.dcm,pneumonia\n,normal\n,pneumonia\n'
    labels = read_labels(table(tmp_path, text))
    assert labels.of("a.dcm") == "normal" and labels.of("b\u2028\u0085.dcm") == "pneumonia"
    assert len(labels.rows) == 2


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("film,label,patient\na.dcm,normal,1\na.dcm,normal,2\n", "lines 2 and 3 give the same film two patients"),
        ("film,label,view\na.png,normal,PA\na.png,normal,lateral\n", "lines 2 and 3 give the same film two views"),
        ("film,label,patient,patient\na.dcm,normal,1,2\n", "two columns patient"),
        ("film|label\na.dcm|normal\n", "separated by commas, semicolons or tabs"),
    ],
)
def test_a_film_has_one_patient_and_one_view(tmp_path, text, says):
    (tmp_path / "labels.csv").write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=says):
        read_labels(tmp_path / "labels.csv")
