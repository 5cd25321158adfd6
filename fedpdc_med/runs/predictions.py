"""The table of predictions of a run: checks, classes, probabilities, predicted classes, patients."""

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fedpdc_med.common.errors import UserError

PREFIX = "p:"
TEXT_COLUMNS = ("model", "split", "site", "film", "patient", "label", "sex", "age_band", "view", "source")
GLOBAL = "global"
# The split shown first if a run has several: held-out test films come before others.
REPORTED_SPLITS = ("holdout", "test", "external", "local", "weighting")
MOST_ROWS, MOST_BYTES = 1_000_000, 10**9  # limits for a table to be opened; a small file can unpack to a very large one
MAY_SUM_TO = 1e-3  # float32 softmax of 20 classes is far closer to 1; percentages or logits are far off


def read_predictions(file: Path) -> pd.DataFrame:
    """The table as written; one that would fill the memory is refused before it is unpacked."""
    where = f"{file.name} of {file.parent.name}"
    try:
        with pq.ParquetFile(file, read_dictionary=TEXT_COLUMNS) as opened:
            columns = [name for name in opened.schema_arrow.names if name in TEXT_COLUMNS or name.startswith(PREFIX)]
            _check_kinds(opened.schema_arrow, columns, where)
            _check_size(opened.metadata, len(columns), where)
            table = opened.read(columns)
        return _spelt_out(table, where).to_pandas(ignore_metadata=True)
    except (pa.ArrowException, OSError, ValueError, KeyError):
        raise UserError(f"{where} is corrupt; remove it, then make it again with: fedpdc resume") from None


def _check_kinds(schema: pa.Schema, columns: list[str], where: str) -> None:
    for name in columns:
        kind = schema.field(name).type
        if name not in TEXT_COLUMNS and not pa.types.is_floating(kind):
            raise UserError(f"{where}: column {name} must hold numbers between 0 and 1")
        if name in TEXT_COLUMNS and not (pa.types.is_dictionary(kind) or pa.types.is_string(kind)):
            raise UserError(f"{where}: column {name} must hold text in every row (an empty one where unknown)")


def _check_size(about: pq.FileMetaData, columns: int, where: str) -> None:
    parts = [about.row_group(part) for part in range(about.num_row_groups)]
    rows = sum(part.num_rows for part in parts)
    if rows > MOST_ROWS:
        raise UserError(f"{where} has {rows:,} predictions; a table of at most {MOST_ROWS:,} can be opened")
    if max(rows * columns * 8, sum(part.total_byte_size for part in parts)) > MOST_BYTES:
        raise UserError(f"{where} is too large to be opened: {rows:,} predictions in {columns:,} columns")


def _spelt_out(table: pa.Table, where: str) -> pa.Table:
    """Decode text that was read as a list of distinct words and an index per row, after checking its full size."""
    texts = [name for name in table.column_names if pa.types.is_dictionary(table.schema.field(name).type)]
    size = 0
    for name in texts:
        for chunk in table.column(name).chunks:
            size += pc.sum(pc.binary_length(chunk.dictionary).take(chunk.indices)).as_py() or 0
    if size > MOST_BYTES:
        raise UserError(f"{where} is too large to be opened: it has {size:,} bytes of text")
    for name in texts:
        table = table.set_column(table.column_names.index(name), name, table.column(name).cast(pa.string()))
    return table


def classes_of(frame: pd.DataFrame) -> list[str]:
    return [name.removeprefix(PREFIX) for name in frame.columns if name.startswith(PREFIX)]


def probabilities(frame: pd.DataFrame) -> np.ndarray:
    """One row per film, one column per class, in class order."""
    return frame[[PREFIX + name for name in classes_of(frame)]].to_numpy(dtype=np.float64)


def true_class(frame: pd.DataFrame) -> np.ndarray:
    """The index of each film's true class."""
    codes, labels = pd.factorize(frame["label"])
    return pd.Index(classes_of(frame)).get_indexer(pd.Index(labels))[codes]


def called_class(frame: pd.DataFrame) -> np.ndarray:
    """The index of each film's predicted class; the first one at a tie."""
    return probabilities(frame).argmax(axis=1)


def patient_codes(patients: np.ndarray | pd.Series, sites: np.ndarray | pd.Series | None = None) -> np.ndarray:
    """Number the patients from 0; a film without a patient counts as its own, and pseudonyms of two sites differ."""
    names = pd.Series(patients)
    codes = pd.factorize(names)[0].astype(np.int64)
    if sites is not None:
        site_codes, site_names = pd.factorize(pd.Series(sites))
        codes = codes * max(len(site_names), 1) + site_codes
    unnamed = (names == "").to_numpy(dtype=bool)
    codes[unnamed] = -1 - np.arange(unnamed.sum())
    return pd.factorize(codes)[0]


def patients_of(frame: pd.DataFrame) -> np.ndarray:
    return patient_codes(frame["patient"], frame["site"])


def one_model(frame: pd.DataFrame) -> None:
    """Stop if a selection mixes models: each film would count once per model, and intervals would be too narrow."""
    models = frame["model"].unique()
    if len(models) > 1:
        raise ValueError(f"predictions of {len(models)} models mixed ({', '.join(sorted(models)[:3])}...): select one")


def select(
    frame: pd.DataFrame, *, model: str | None = None, split: str | None = None, site: str | None = None
) -> pd.DataFrame:
    keep = np.ones(len(frame), dtype=bool)
    for column, wanted in (("model", model), ("split", split), ("site", site)):
        if wanted is not None:
            keep &= (frame[column] == wanted).to_numpy()
    return frame[keep]


def reported_split(frame: pd.DataFrame) -> str:
    """The split that is reported; the same in the app, the report and on the command line."""
    present = set(frame.loc[frame["model"] == GLOBAL, "split"].unique())
    found = next((split for split in REPORTED_SPLITS if split in present), None)
    if found is None:
        splits = ", ".join(REPORTED_SPLITS)
        raise UserError(f"no predictions of the global model on any of: {splits}; finish the run first")
    return found


def validate(frame: pd.DataFrame, where: str = "predictions.parquet") -> None:
    """Raise a UserError of one sentence for the first thing that would make a number wrong or a page fail."""
    missing = [name for name in TEXT_COLUMNS if name not in frame.columns]
    if missing:
        raise UserError(f"{where}: no column {', '.join(missing)}; write it with this version of fedpdc")
    if not frame.columns.is_unique:
        raise UserError(f"{where}: column {frame.columns[frame.columns.duplicated()][0]} appears twice")
    if len(classes_of(frame)) < 2:
        raise UserError(f"{where}: needs a column p:CLASS for each of at least two classes")
    if frame.empty:
        raise UserError(f"{where}: contains no predictions; finish the run first")
    _validate_text(frame, where)
    _validate_probabilities(frame, where)
    unknown = sorted(set(frame["label"].unique()) - set(classes_of(frame)))
    if unknown:
        raise UserError(f"{where}: label {unknown[0]!r} has no column p:{unknown[0]}")
    named = frame[frame["film"] != ""]
    twice = named.duplicated(["model", "split", "site", "film"])
    if twice.any():
        raise UserError(f"{where}: film {named.loc[twice, 'film'].iloc[0]} appears twice for one model and split")


def _validate_text(frame: pd.DataFrame, where: str) -> None:
    for name in TEXT_COLUMNS:
        column = frame[name]
        values = column.cat.categories if isinstance(column.dtype, pd.CategoricalDtype) else column
        if column.isna().any() or not pd.api.types.is_string_dtype(values):
            raise UserError(f"{where}: column {name} must hold text in every row (an empty one where unknown)")


def _validate_probabilities(frame: pd.DataFrame, where: str) -> None:
    for name in classes_of(frame):
        if not pd.api.types.is_float_dtype(frame[PREFIX + name]):
            raise UserError(f"{where}: column p:{name} must hold numbers between 0 and 1")
    values = probabilities(frame)
    bad = ~np.isfinite(values)
    if bad.any():
        row, column = (int(i) for i in np.argwhere(bad)[0])
        raise UserError(f"{where}: row {row} has no probability for {classes_of(frame)[column]}; the model gave NaN")
    if values.min() < -MAY_SUM_TO:
        raise UserError(f"{where}: row {int(values.min(axis=1).argmin())} has a probability below 0")
    off = np.abs(values.sum(axis=1) - 1)
    if off.max() > MAY_SUM_TO:
        row = int(off.argmax())
        raise UserError(f"{where}: probabilities of row {row} sum to {values[row].sum():.3f}, not to 1")


def display_name(label: str) -> str:
    """A class name as clinicians write it."""
    return {"covid-19": "COVID-19"}.get(label, label)
