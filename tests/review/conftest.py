"""Pages of the review app, drawn by Streamlit's own test runner."""

import numpy as np
import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from fedpdc_med.review.sections import PAGES

SCRIPT = "from fedpdc_med.review.app.shell import show_page\nshow_page({number})\n"


class Drawn:
    """A page as a reader sees it: its text without the escapes that keep it from being markup."""

    def __init__(self, test: AppTest) -> None:
        self.test = test
        assert not test.exception, test.exception
        assert len(test.warning) and "not for diagnosis" in test.warning[0].value  # the banner is on every page

    @property
    def text(self) -> str:
        kinds = ("header", "subheader", "markdown", "caption", "info", "error", "text")
        parts = [element.value for kind in kinds for element in getattr(self.test.main, kind)]
        for table in self.test.main.table:
            parts += [*map(str, table.value.columns), *table.value.astype(str).to_numpy().ravel()]
        return as_read("\n".join(parts))

    @property
    def sidebar(self) -> list[str]:
        return [as_read(caption.value) for caption in self.test.sidebar.caption]

    @property
    def errors(self) -> list[str]:
        return [as_read(error.value) for error in self.test.error]

    def table(self, column: str):
        """The first table that has this column, as read."""
        for table in self.test.main.table:
            frame = table.value.map(as_read).rename(columns=as_read)
            if column in frame.columns:
                return frame
        raise AssertionError(f"no table with a column {column}")


def as_read(text: object) -> str:
    return str(text).replace("\\", "").replace("\u2060", "")


@pytest.fixture
def draw(monkeypatch):
    """draw(runs, "recall", run=..., second=..., split=...): one page of one run."""

    def drawn(runs, module, *, run=None, second=None, split=None, interval=None, query=None):
        monkeypatch.setenv("FEDPDC_RUNS", str(runs))
        number = [page.name for page in PAGES].index(module)
        test = AppTest.from_string(SCRIPT.format(number=number), default_timeout=30)
        for key, value in {"run": run, "second": second, "split": split, "interval": interval}.items():
            if value is not None:
                test.session_state[key] = value
        for key, value in (query or {}).items():
            test.query_params[key] = value
        return Drawn(test.run())

    return drawn


@pytest.fixture
def another_outside():
    """another_outside(folder, worse=...): a run gets a second hospital that took no part, like `island`."""
    return with_another_outside


def with_another_outside(folder, worse=False):
    """All films of the second one are found, or none."""
    file = folder / "predictions.parquet"
    frame = pd.read_parquet(file)
    island = frame[frame["site"] == "island"]
    named = [column for column in frame.columns if column.startswith("p:")]
    right = np.array([island["label"] == column.removeprefix("p:") for column in named]).T
    lake = island.assign(site="lake", film="lake-" + island["film"])
    lake[named] = np.where(right != worse, 0.9, 0.01).astype(np.float32)
    lake[named] = lake[named].div(lake[named].sum(axis=1), axis=0).astype(np.float32)
    pd.concat([frame, lake], ignore_index=True).to_parquet(file, index=False)
