"""Pictures to the working size."""

import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from fedpdc_med.imaging.dicom.pixels import Shown, apply, greys, steps_of, unscaled
from fedpdc_med.imaging.ingest.resize import picture
from fedpdc_med.imaging.ingest.resize import to_working_size as fitted
from fedpdc_med.imaging.records import Reason, Refused


def to_working_size(greys, *how, **more):
    return fitted(Shown(greys), *how, **more)


def test_a_square_film_is_averaged_down():
    shown = np.zeros((64, 64), np.float32)
    shown[:2, :2] = [[0, 0.2], [0.4, 1.0]]
    film = to_working_size(shown, 32)
    assert film.dtype == np.uint8 and film.shape == (1, 32, 32)
    assert film[0, 0, 0] == 102  # the mean 0.4 of 255
    assert film.sum() == 102


def test_a_large_film_gives_the_mean_of_its_blocks():
    shown = np.random.default_rng(0).random((256, 256), np.float32)
    expected = shown.reshape(32, 8, 32, 8).mean(axis=(1, 3)) * 255
    assert np.abs(to_working_size(shown, 32)[0] - expected).max() <= 0.51


@pytest.mark.parametrize("side", [64, 300, 1024])
@pytest.mark.parametrize("inverted", ["MONOCHROME1", "MONOCHROME2"])
@pytest.mark.parametrize("width", [4000, 500])
def test_scaling_after_averaging_gives_the_film_that_scaling_before_it_gives(film, side, inverted, width):
    """A window of 4000 clips no pixel, so values are averaged first; one of 500 clips, so greys are."""
    pixels = np.random.default_rng(0).integers(1000, 3000, (side, side)).astype(np.uint16)
    ds = film(pixels, BitsStored=12, WindowCenter=2000, WindowWidth=width, PhotometricInterpretation=inverted)
    shown, _ = unscaled(ds)
    assert (shown.values.dtype == np.uint16) == (width == 4000)
    by_greys = fitted(Shown(apply(greys(steps_of(ds)), pixels)), 64)
    assert np.abs(fitted(shown, 64).astype(int) - by_greys).max() <= 1


def test_padding_keeps_all_of_a_wide_film_between_black_bars():
    film = to_working_size(np.ones((32, 64), np.float32), 32)[0]
    assert (film[8:24] == 255).all()
    assert film[:8].max() == film[24:].max() == 0


def test_cropping_keeps_the_central_square():
    shown = np.zeros((64, 128), np.float32)
    shown[:, 32:96] = 1
    assert (to_working_size(shown, 32, fit="crop") == 255).all()


@pytest.mark.parametrize("shape", [(300, 251), (1955, 1841), (257, 400)])
def test_odd_sizes_keep_their_aspect_and_their_brightness(shape):
    film = to_working_size(np.full(shape, 0.5, np.float32), 128)[0]
    lit = film > 0
    long, short = max(lit.any(0).sum(), lit.any(1).sum()), min(lit.any(0).sum(), lit.any(1).sum())
    assert long == 128
    assert short == pytest.approx(128 * min(shape) / max(shape), abs=1.5)
    assert set(np.unique(film)) <= {0, 127, 128}


def test_a_small_film_is_enlarged_smoothly():
    shown = np.tile(np.linspace(0, 1, 28, dtype=np.float32), (28, 1))
    steps = np.diff(to_working_size(shown, 128)[0, 64].astype(int))
    assert steps.min() >= 0 and steps.max() <= 4


def test_equalising_spreads_a_flat_film_over_the_greys():
    shown = np.random.default_rng(0).uniform(0.45, 0.55, (64, 64)).astype(np.float32)
    assert np.ptp(to_working_size(shown, 32)) < 30
    assert np.ptp(to_working_size(shown, 32, equalise=True)) > 240


@pytest.mark.parametrize("shape", [(8, 8), (1, 4000), (100, 400)])
def test_what_is_no_film_by_its_shape_is_refused(shape):
    with pytest.raises(Refused) as refusal:
        to_working_size(np.ones(shape, np.float32), 32)
    assert refusal.value.reason == Reason.SHAPE


def test_pictures_of_8_and_16_bits_and_in_colour(tmp_path):
    Image.fromarray(np.full((20, 20), 51, np.uint8)).save(tmp_path / "grey.png")
    Image.fromarray(np.tile([0, 26214], (20, 10)).astype(np.uint16)).save(tmp_path / "deep.png")
    Image.fromarray(np.tile([0, 1638], (20, 10)).astype(np.uint16)).save(tmp_path / "twelve.png")  # 0.4 * 4095
    Image.fromarray(np.full((20, 20, 3), 51, np.uint8)).save(tmp_path / "colour.png")
    for name in ("grey", "deep", "colour", "twelve"):
        shown, _ = picture(tmp_path / f"{name}.png")
        assert shown.values.mean() * shown.slope == pytest.approx(0.2, abs=1e-4)


def test_a_photograph_that_says_it_is_upside_down_is_turned(tmp_path):
    image = Image.fromarray(np.vstack([np.zeros((20, 20)), np.full((20, 20), 255)]).astype(np.uint8))
    exif = Image.Exif()
    exif[0x0112] = 3
    image.save(tmp_path / "phone.png", exif=exif)
    shown, _ = picture(tmp_path / "phone.png")
    assert shown.values[:20].mean() == 255 and shown.values[20:].mean() == 0


@pytest.mark.parametrize("kind", ["EPS", "TIFF", "GIF"])
def test_what_is_neither_png_nor_jpeg_inside_is_not_opened_whatever_its_name_says(tmp_path, kind):
    """Pillow hands EPS to Ghostscript, which runs programs that a file brings along."""
    Image.fromarray(np.eye(64, dtype=np.uint8)).save(tmp_path / "film.png", format=kind)
    with pytest.raises(Refused) as refusal:
        picture(tmp_path / "film.png")
    assert (refusal.value.reason, refusal.value.detail) == (Reason.NOT_PICTURE, "neither PNG nor JPEG by its content")


@pytest.mark.parametrize("side", [12_000, 30_000])
def test_a_picture_that_announces_more_pixels_than_a_film_has_is_refused_before_it_is_decoded(tmp_path, side):
    header = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    chunk = b"IHDR" + header
    pixels = struct.pack(">I4sI", 0, b"IDAT", zlib.crc32(b"IDAT"))  # none: decoding would find the film truncated
    start = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", len(header)) + chunk + struct.pack(">I", zlib.crc32(chunk))
    (tmp_path / "bomb.png").write_bytes(start + pixels)
    with pytest.raises(Refused) as refusal:
        picture(tmp_path / "bomb.png")
    assert refusal.value.reason == Reason.SHAPE
