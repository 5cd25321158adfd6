"""A small Tiny-ImageNet in the official folders, written here, and the real one where there is a copy of it."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fedpdc_med.common.errors import UserError
from fedpdc_med.datasets import load

WNIDS = ("n03", "n01", "n02")


def one_line_error(folder: Path) -> str:
    with pytest.raises(UserError) as caught:
        load("tiny-imagenet", folder)
    message = str(caught.value)
    assert "\n" not in message
    return message


def write_jpeg(file: Path, colour: int | tuple[int, int, int], size: int = 64) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    Image.new("L" if isinstance(colour, int) else "RGB", (size, size), colour).save(file, quality=95)


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    home = tmp_path / "tiny-imagenet-200"
    for brightness, wnid in enumerate(WNIDS, start=1):
        for i in (10, 2):
            write_jpeg(home / "train" / wnid / "images" / f"{wnid}_{i}.JPEG", (40 * brightness + i,) * 3)
    write_jpeg(home / "val" / "images" / "val_0.JPEG", (200, 100, 50))
    write_jpeg(home / "val" / "images" / "val_1.JPEG", 90)
    (home / "val" / "val_annotations.txt").write_text(
        "val_0.JPEG\tn02\t0\t0\t62\t62\nval_1.JPEG\tn03\t1\t1\t5\t5\n", encoding="utf-8"
    )
    (home / "wnids.txt").write_text("\n".join(WNIDS) + "\n", encoding="utf-8")
    return home


def test_tiny_imagenet_sorts_its_classes_and_tests_on_val(tiny: Path) -> None:
    images = load("tiny-imagenet", tiny)

    assert images.classes == ("n01", "n02", "n03")
    assert images.train_images.shape == (6, 3, 64, 64)
    assert images.train_labels.tolist() == [0, 0, 1, 1, 2, 2]
    assert images.train_images[:, 1, 30, 30].tolist() == [90, 82, 130, 122, 50, 42]  # n01_10 sorts before n01_2
    assert images.test_labels.tolist() == [1, 2]
    assert load("tiny-imagenet", tiny.parent).fingerprint() == images.fingerprint()


def test_a_grey_jpeg_becomes_rgb_and_colours_stay_in_order(tiny: Path) -> None:
    colour, grey = load("tiny-imagenet", tiny).test_images[:, :, 30, 30].astype(int)

    assert np.abs(colour - (200, 100, 50)).max() <= 3  # JPEG is lossy
    assert grey.tolist() == [90, 90, 90]


def test_wrong_tiny_imagenet_files_are_named_with_what_was_found(tiny: Path) -> None:
    file = tiny / "train" / "n02" / "images" / "n02_2.JPEG"
    file.write_bytes(file.read_bytes()[:-20])
    assert "images/n02_2.JPEG is not a readable JPEG" in one_line_error(tiny)
    write_jpeg(file, 5, size=32)
    assert "images/n02_2.JPEG is 32x32 pixels, not 64x64" in one_line_error(tiny)
    file.write_bytes(b"not a picture")
    assert "images/n02_2.JPEG is not a readable JPEG" in one_line_error(tiny)
    file.write_bytes(b"")
    assert "images/n02_2.JPEG is not a readable JPEG" in one_line_error(tiny)
    for picture in file.parent.iterdir():
        picture.unlink()
    assert "train/n02/images contains no .JPEG file" in one_line_error(tiny)


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ("val_7.JPEG\tn01\t0\t0\t1\t1\n", "images/val_7.JPEG is missing"),
        ("val_0.JPEG\tn01\nval_1.JPEG\tn99\n", "val_annotations.txt line 2: class 'n99' is not in wnids.txt"),
        ("val_0.JPEG\n", "line 1: class '' is not in wnids.txt"),
        ("", "val_annotations.txt is empty"),
        (None, "val/val_annotations.txt is missing"),
    ],
)
def test_a_wrong_validation_table_is_named_with_what_was_found(
    annotations: str | None, expected: str, tiny: Path
) -> None:
    table = tiny / "val" / "val_annotations.txt"
    table.unlink() if annotations is None else table.write_text(annotations, encoding="utf-8")

    assert expected in one_line_error(tiny)


def test_the_real_tiny_imagenet_has_200_classes_in_both_splits(real_data: Callable[..., Path]) -> None:
    images = load("tiny-imagenet", real_data("tiny-imagenet-200"))

    assert len(images.classes) == 200
    assert len(set(np.bincount(images.train_labels, minlength=200))) == 1
    assert np.bincount(images.test_labels, minlength=200).min() > 0
