"""The picture is written, grows with the sites it shows, and says what it leaves out."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text
from PIL import Image, ImageColor

from fedpdc_med.runs.label_distribution import COLOURS, label_distribution


def draw(counts: np.ndarray, path: Path, sites: list[str] | None = None) -> Image.Image:
    names = sites or [f"site-{i}" for i in range(len(counts))]
    label_distribution(counts, names, [f"class-{k}" for k in range(counts.shape[1])], path)
    return Image.open(path).convert("RGB")


def pixels_of(colour: str, picture: Image.Image) -> int:
    return int(np.all(np.asarray(picture) == ImageColor.getrgb(colour), axis=2).sum())


@pytest.fixture
def texts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every text of the figures that are saved, in place of reading them off the pixels."""
    seen: list[str] = []
    save = Figure.savefig

    def saving(figure: Figure, *args: Any, **options: Any) -> None:
        save(figure, *args, **options)
        seen.extend(text.get_text() for text in figure.findobj(Text) if isinstance(text, Text))

    monkeypatch.setattr(Figure, "savefig", saving)
    return seen


def test_the_length_of_a_bar_is_its_number_of_films(tmp_path: Path) -> None:
    picture = draw(np.array([[300, 100], [0, 200]]), tmp_path / "bars.png")

    legend = pixels_of(COLOURS[1], draw(np.array([[300, 0], [200, 0]]), tmp_path / "legend.png"))
    first, second = (pixels_of(colour, picture) - legend for colour in COLOURS[:2])
    assert first == pytest.approx(second, rel=0.03)  # 300 films in the first class, 100 + 200 in the second


def test_bars_name_their_sites_classes_and_totals(tmp_path: Path, texts: list[str]) -> None:
    draw(np.array([[1000, 234], [0, 20]]), tmp_path / "bars.png", ["harbor-general", "riverside"])

    assert {"harbor-general", "riverside", "class-0", "class-1", "films", "1,234", "20"} <= set(texts)
    assert "Label distribution: 1,254 films, 2 classes, 2 sites" in texts


def test_a_hundred_classes_become_a_heat_map_without_a_legend(tmp_path: Path, texts: list[str]) -> None:
    counts = np.zeros((3, 100), int)
    counts[0, :50] = 7

    picture = draw(counts, tmp_path / "map.png")

    assert "class-0" not in texts
    assert {"site-0", "350", "films of one class (white: none)"} <= set(texts)
    assert pixels_of(COLOURS[0], picture) == 0


def test_a_thousand_sites_show_the_forty_largest_and_say_so(tmp_path: Path, texts: list[str]) -> None:
    counts = np.stack([np.arange(1000), np.arange(1000)], axis=1)

    picture = draw(counts, tmp_path / "many.png")

    assert "Label distribution: the 40 largest of 1,000 sites (999,000 films, 2 classes in all)" in texts
    shown = [text for text in texts if text.startswith("site-")]
    assert set(shown) == {f"site-{i}" for i in range(960, 1000)}
    assert shown[0] == "site-999"
    assert picture.height < 2000


def test_a_picture_grows_with_the_sites_it_shows(tmp_path: Path) -> None:
    few, more = (draw(np.ones((sites, 3), int), tmp_path / f"{sites}.png") for sites in (6, 40))

    assert few.width == more.width
    assert more.height > 3 * few.height


@pytest.mark.parametrize("classes", [3, 30])
def test_sites_without_a_film_are_named_and_have_no_bar(classes: int, tmp_path: Path, texts: list[str]) -> None:
    picture = draw(np.zeros((2, classes), int), tmp_path / "empty.png")

    assert {"site-0", "site-1", f"Label distribution: 0 films, {classes} classes, 2 sites"} <= set(texts)
    legend = pixels_of(COLOURS[2], picture)  # of a class that no other picture here has films of either
    assert pixels_of(COLOURS[0], picture) == legend


def test_counts_that_do_not_fit_the_names_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"expected 1 sites x 2 classes"):
        label_distribution(np.ones((2, 2)), ["only-one"], ["a", "b"], tmp_path / "x.png")


def test_no_global_figure_is_left_behind(tmp_path: Path) -> None:
    from matplotlib import pyplot

    draw(np.ones((2, 2), int), tmp_path / "x.png")
    assert pyplot.get_fignums() == []


def test_a_benchmark_has_images_and_no_films(tmp_path: Path, texts: list[str]) -> None:
    for classes in (2, 100):
        counts = np.ones((2, classes), int)
        label_distribution(counts, ["a", "b"], [f"class-{i}" for i in range(classes)], tmp_path / "map.png", "images")

    assert {"images", "images at the site", "images of one class (white: none)"} <= set(texts)
    assert not any("films" in text for text in texts)
