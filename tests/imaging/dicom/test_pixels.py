"""Stored values to greys, with numbers small enough to check on paper."""

import io

import numpy as np
import pydicom
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydicom.data import get_testdata_file
from pydicom.dataset import Dataset
from pydicom.pixels import apply_windowing
from pydicom.uid import ExplicitVRBigEndian, JPEG2000Lossless, JPEGLSLossless, RLELossless

from fedpdc_med.imaging.dicom.pixels import Steps, apply, decode, display, greys
from fedpdc_med.imaging.records import Reason, Refused


def shown(ds: Dataset) -> list[float]:
    return [round(float(grey), 4) for grey in display(ds)[0].ravel()]


def lut(first: int, bits: int, entries: list[int]) -> list[Dataset]:
    item = Dataset()
    item.add_new("LUTDescriptor", "US", [len(entries), first, bits])
    item.add_new("LUTData", "US", entries)
    return [item]


def row(*values, dtype=np.uint16):
    return np.array([values], dtype)


def test_without_a_window_the_bits_stored_are_the_range_whatever_the_film_holds(film):
    assert shown(film(row(0, 51, 102, dtype=np.uint8))) == [0, 0.2, 0.4]
    assert shown(film(row(0, 1023, 2047), BitsStored=12, HighBit=11)) == [0, 0.2498, 0.4999]
    assert shown(film(row(0, 13107, 65535))) == [0, 0.2, 1]


def test_signed_values_count_from_the_lowest_value_the_bits_can_hold(film):
    assert shown(film(row(-128, 0, 127, dtype=np.int8))) == [0, round(128 / 255, 4), 1]
    assert shown(film(row(-2048, -2048 + 819, 2047, dtype=np.int16), BitsStored=12, HighBit=11)) == [0, 0.2, 1]


def test_rescale_comes_before_the_window(film):
    # 100, 200, 300 become 1000 - 2 * value = 800, 600, 400; a window of 600.5 and 201 shows 500 to 700.
    ds = film(row(100, 200, 300), RescaleSlope=-2, RescaleIntercept=1000, WindowCenter=600.5, WindowWidth=201)
    assert shown(ds) == [1, 0.5, 0]


def test_a_negative_slope_without_a_window_turns_the_greys_round(film):
    assert shown(film(row(0, 51, 255, dtype=np.uint8), RescaleSlope=-1, RescaleIntercept=255)) == [1, 0.8, 0]


def test_the_first_of_several_windows_is_used(film):
    ds = film(row(0, 50, 100), WindowCenter=[50.5, 9000], WindowWidth=[101, 10])
    assert shown(ds) == [0, 0.5, 1]
    assert display(ds)[1] == "window 50.5/101"


def test_a_window_of_width_one_is_a_step(film):
    assert shown(film(row(9, 10, 11), WindowCenter=10.5, WindowWidth=1)) == [0, 0, 1]


def test_a_window_that_cannot_be_used_is_left_out(film):
    assert shown(film(row(0, 65535), WindowCenter=100, WindowWidth=0)) == [0, 1]
    assert shown(film(row(0, 65535), WindowCenter="", WindowWidth="")) == [0, 1]


@given(
    center=st.floats(-500, 5000),
    width=st.floats(1.1, 9000),
    function=st.sampled_from(["LINEAR", "LINEAR_EXACT", "SIGMOID"]),
)
def test_windows_agree_with_pydicom(center, width, function):
    ds = Dataset()
    ds.PhotometricInterpretation, ds.PixelRepresentation, ds.BitsStored = "MONOCHROME2", 0, 12
    ds.WindowCenter, ds.WindowWidth, ds.VOILUTFunction = float(f"{center:.6g}"), float(f"{width:.6g}"), function
    theirs = apply_windowing(np.arange(4096), ds) / 4095
    steps = Steps(16, 12, center=float(ds.WindowCenter), width=float(ds.WindowWidth), function=function)
    assert np.allclose(greys(steps).table[:4096], theirs, atol=1e-6)


def test_voi_lut_wins_over_a_window_and_ends_clip(film):
    # The table starts at value 10: below comes its first entry, above its last.
    ds = film(row(0, 10, 11, 12, 500), VOILUTSequence=lut(10, 8, [51, 102, 255]), WindowCenter=50, WindowWidth=100)
    assert shown(ds) == [0.2, 0.2, 0.4, 1, 1]


def test_voi_lut_with_more_than_256_entries_of_8_bits(film):
    # pydicom 3.0 wraps around here: it would show value 256 like value 0.
    ds = film(row(0, 256, 4095), VOILUTSequence=lut(0, 8, [i // 16 for i in range(4096)]))
    assert shown(ds) == [0, round(16 / 255, 4), 1]


def test_voi_lut_that_claims_16_bits_but_holds_12(film):
    assert shown(film(row(0, 1, 2), VOILUTSequence=lut(0, 16, [0, 819, 4095]))) == [0, 0.2, 1]


def test_modality_lut_of_12_bits(film):
    assert shown(film(row(0, 1, 2), ModalityLUTSequence=lut(0, 12, [4095, 819, 0]))) == [1, 0.2, 0]


@pytest.mark.parametrize("shape", [None, "INVERSE", "IDENTITY"])
def test_monochrome1_is_inverted_exactly_once_with_and_without_a_presentation_lut_shape(film, shape):
    more = {"PresentationLUTShape": shape} if shape else {}
    ds = film(row(0, 51, 255, dtype=np.uint8), PhotometricInterpretation="MONOCHROME1", **more)
    assert shown(ds) == [1, 0.8, 0]
    assert display(ds)[1] == "inverted"


def test_monochrome1_is_inverted_after_the_window(film):
    ds = film(row(0, 25, 50, 100), PhotometricInterpretation="MONOCHROME1", WindowCenter=50.5, WindowWidth=101)
    assert shown(ds) == [1, 0.75, 0.5, 0]


def test_padding_around_the_film_is_black_even_when_inverted(film):
    ds = film(row(0, 51, 255, dtype=np.uint8), PhotometricInterpretation="MONOCHROME1")
    ds.add_new("PixelPaddingValue", "US", 0)
    assert shown(ds) == [0, 0.8, 0]


def test_bits_above_those_stored_do_not_count(film):
    ds = film(row(0xF000, 0xF000 + 819, 4095), BitsStored=12, HighBit=11)
    ds.add_new(0x60000102, "US", 12)  # an overlay lies in them
    assert shown(ds) == [0, 0.2, 1]
    signed = film(row(0x0800, 0x0FFF, 0x07FF, dtype=np.int16), BitsStored=12, HighBit=11)
    assert shown(signed) == [0, round(2047 / 4095, 4), 1]


def test_values_beyond_the_bits_stored_are_quarantined_and_not_wrapped_round(film):
    with pytest.raises(Refused) as refusal:
        display(film(row(0, 819, 4096), BitsStored=12, HighBit=11))
    assert (refusal.value.verdict, refusal.value.detail) == (
        "quarantined",
        "values beyond the 12 bits given in the header",
    )


def test_values_that_stand_further_left_are_shifted_unless_the_header_is_wrong(film):
    assert shown(film(row(0, 819 << 4, 4095 << 4), BitsStored=12, HighBit=15)) == [0, 0.2, 1]
    assert shown(film(row(0, 819, 4095), BitsStored=12, HighBit=15)) == [0, 0.2, 1]
    with pytest.raises(Refused, match="undecodable"):
        display(film(row(0, 1), BitsStored=12, HighBit=7))


def test_12_bits_that_are_called_16_are_not_shown_nearly_black(film):
    ds = film(row(0, 819, 4095))
    assert shown(ds) == [0, 0.2, 1] and display(ds)[1] == "12 bits in use"
    assert shown(film(row(0, 819, 4095), PhotometricInterpretation="MONOCHROME1")) == [1, 0.8, 0]
    padded = film(row(0, 819, 4095, 65535))
    padded.add_new("PixelPaddingValue", "US", 65535)
    assert shown(padded) == [0, 0.2, 1, 0]


def test_a_window_that_shows_almost_nothing_is_left_out(film):
    pixels = np.linspace(300, 4095, 1024).astype(np.uint16).reshape(32, 32)
    ds = film(pixels, BitsStored=12, HighBit=11, WindowCenter=128, WindowWidth=256)
    picture, applied = display(ds)
    assert np.allclose(picture, pixels / 4095, atol=1e-6)
    assert applied == "window 128/256 left out, it shows almost nothing"


@pytest.mark.parametrize("bits, entries", [(16, [0, 3277, 16383]), (8, [0, 819, 4095]), (12, [0, 51, 255])])
def test_a_table_whose_entries_are_not_of_the_bits_it_says_is_shown_by_its_entries(film, bits, entries):
    assert shown(film(row(0, 1, 2), VOILUTSequence=lut(0, bits, entries))) == [0, pytest.approx(0.2, abs=1e-3), 1]


@given(
    slope=st.floats(-3, 3).filter(lambda x: abs(x) > 0.01),
    intercept=st.floats(-2000, 2000),
    width=st.floats(2, 9000),
    inverted=st.booleans(),
    signed=st.booleans(),
)
def test_the_fast_ramp_shows_what_the_table_shows(slope, intercept, width, inverted, signed):
    grey = greys(Steps(16, 12, signed, slope=slope, intercept=intercept, center=700.0, width=width, inverted=inverted))
    stored = np.arange(-2048, 2048, dtype=np.int16) if signed else np.arange(4096, dtype=np.uint16)
    by_table = apply(grey._replace(ramp=None), stored)
    assert np.abs(apply(grey, stored) - by_table).max() < 1e-3  # a quarter of one of 255 greys; float32 ends there


@pytest.mark.parametrize(
    "orientation, corner",
    [
        (["L", "F"], (0, 0)),
        (["R", "F"], (0, 2)),
        (["L", "H"], (1, 0)),
        (["R", "H"], (1, 2)),
        (["A", "F"], (0, 0)),
        ("", (0, 0)),
    ],
)
def test_a_frontal_film_is_turned_until_its_left_is_on_the_right_and_its_head_up(film, orientation, corner):
    pixels = np.zeros((2, 3), np.uint8)
    pixels[0, 0] = 255
    picture, _ = display(film(pixels, PatientOrientation=orientation))
    assert np.argwhere(picture == 1).tolist() == [list(corner)]


def test_a_film_lying_on_its_side_is_transposed(film):
    pixels = np.array([[0, 51, 102], [153, 204, 255]], np.uint8)
    picture, applied = display(film(pixels, PatientOrientation=["F", "L"]))
    assert (picture * 5).round().astype(int).tolist() == [[0, 3], [1, 4], [2, 5]]
    assert applied == "transposed"


@pytest.mark.parametrize("syntax", [JPEG2000Lossless, RLELossless])
def test_compressed_films_show_what_they_showed_before(film, syntax):
    pixels = np.random.default_rng(0).integers(0, 4096, (32, 40)).astype(np.uint16)
    plain, packed = film(pixels, BitsStored=12, HighBit=11), film(pixels, BitsStored=12, HighBit=11)
    packed.compress(syntax)
    assert np.array_equal(display(plain)[0], display(packed)[0])


def test_jpeg_ls_gives_back_the_pixels_it_was_made_of():
    """No library here writes JPEG-LS; pydicom brings a picture in it, and the same one uncompressed."""
    plain, packed = (
        pydicom.dcmread(get_testdata_file(name, download=False))
        for name in ("MR_small.dcm", "MR_small_jpeg_ls_lossless.dcm")
    )
    assert packed.file_meta.TransferSyntaxUID == JPEGLSLossless
    assert plain.pixel_array.std() > 100 and np.array_equal(decode(plain), decode(packed))


def test_an_unknown_transfer_syntax_is_named_as_such(film):
    ds = film(row(1, 2))
    ds.file_meta.TransferSyntaxUID = "1.2.3.4.5"
    with pytest.raises(Refused) as refusal:
        display(ds)
    assert (refusal.value.reason, refusal.value.detail) == (Reason.UNDECODABLE, "transfer syntax unknown to pydicom")


def test_pixels_that_were_cut_off_are_refused(film):
    ds = film(np.zeros((8, 8), np.uint16))
    ds.PixelData = ds.PixelData[:60]
    with pytest.raises(Refused) as refusal:
        display(ds)
    assert refusal.value.reason == Reason.UNDECODABLE


@pytest.mark.parametrize("how", [{}, {"WindowCenter": 2000, "WindowWidth": 900, "VOILUTFunction": "SIGMOID"}])
def test_a_film_of_the_other_byte_order_shows_the_same(film, how):
    pixels = np.random.default_rng(0).integers(0, 4096, (8, 8)).astype(np.uint16)
    little, big = film(pixels, BitsStored=12, HighBit=11, **how), film(pixels, BitsStored=12, HighBit=11, **how)
    big.PixelData = pixels.byteswap().tobytes()
    big.file_meta.TransferSyntaxUID = ExplicitVRBigEndian
    file = io.BytesIO()
    big.save_as(file, enforce_file_format=True)
    file.seek(0)
    assert np.array_equal(display(pydicom.dcmread(file))[0], display(little)[0])
