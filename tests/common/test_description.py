"""A table for a document."""

from fedpdc_med.common.description import as_markdown


def test_a_table_as_markdown():
    assert as_markdown(["class", "recall"], [["a", "0.90"]]) == "| class | recall |\n| --- | --- |\n| a | 0.90 |"
    assert as_markdown(["class", "recall"], [], numbers=True) == "| class | recall |\n| --- | ---: |"
