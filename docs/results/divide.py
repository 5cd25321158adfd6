"""Divide covid-chestxray-dataset into the films of one publisher and the rest: python divide.py FOLDER."""

import csv
import sys
from pathlib import Path

source = Path(sys.argv[1])
with (source / "metadata.csv").open(newline="", encoding="utf-8-sig", errors="replace") as table:
    reader = csv.DictReader(table)
    columns, rows = reader.fieldnames or [], list(reader)

for name, of_eurorad in (("eurorad", True), ("covid-rest", False)):
    chosen = [row for row in rows if ("eurorad.org" in (row["url"] or "")) == of_eurorad]
    images = Path(name) / "images"
    images.mkdir(parents=True, exist_ok=True)
    with (Path(name) / "metadata.csv").open("w", newline="", encoding="utf-8") as table:
        writer = csv.DictWriter(table, columns, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(chosen)
    for row in chosen:
        if (film := source / "images" / row["filename"]).exists():
            (images / film.name).write_bytes(film.read_bytes())
