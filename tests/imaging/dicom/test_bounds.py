"""A small file may not take much memory, whatever it announces."""

import io
import struct
import tracemalloc

import numpy as np
import pytest
from PIL import Image
from pydicom.encaps import encapsulate, generate_frames
from pydicom.uid import (
    DeflatedExplicitVRLittleEndian,
    JPEG2000Lossless,
    JPEGBaseline8Bit,
    JPEGLSLossless,
)

from fedpdc_med.imaging.dicom.bounds import announced
from fedpdc_med.imaging.dicom.pixels import decode
from fedpdc_med.imaging.ingest.examine import examine
from fedpdc_med.imaging.ingest.labels import one_label
from fedpdc_med.imaging.ingest.sources import IngestOptions
from fedpdc_med.imaging.records import FilmRecord, Reason, Refused

PIXELS = np.random.default_rng(0).integers(0, 4096, (64, 48)).astype(np.uint16)
MB = 1 << 20


def deflated(film, path, extra: int = 0) -> None:
    """A film with `extra` zeros after its last pixel."""
    ds = film(PIXELS, BitsStored=12, HighBit=11)
    ds.PixelData += bytes(extra)
    ds.file_meta.TransferSyntaxUID = DeflatedExplicitVRLittleEndian
    ds.save_as(path, enforce_file_format=True)


def compressed(film, syntax):
    if syntax == JPEG2000Lossless:
        ds = film(PIXELS, BitsStored=12, HighBit=11)
        ds.compress(syntax)
        return ds
    ds, jpeg = film((PIXELS // 16).astype(np.uint8)), io.BytesIO()
    Image.fromarray((PIXELS // 16).astype(np.uint8)).save(jpeg, "jpeg")
    ds.PixelData = encapsulate([jpeg.getvalue()])
    ds.file_meta.TransferSyntaxUID = JPEGBaseline8Bit
    return ds


def frame(ds) -> bytes:
    return next(generate_frames(ds.PixelData, number_of_frames=1))


def enlarged(stream: bytes, syntax) -> bytes:
    """The same stream, whose header now says 20,000 x 20,000."""
    data = bytearray(stream)
    if syntax == JPEG2000Lossless:
        size = stream.index(b"\xff\x51") + 6
        struct.pack_into(">II", data, size, 20_000, 20_000)
        struct.pack_into(">II", data, size + 16, 20_000, 20_000)  # in one tile
    else:
        struct.pack_into(">HH", data, stream.index(b"\xff\xc0") + 5, 20_000, 20_000)
    return bytes(data)


def test_a_deflated_film_is_read_and_one_that_inflates_beyond_any_film_is_refused_early(tmp_path, film):
    options = IngestOptions(one_label("normal"), b"k" * 32)
    deflated(film, tmp_path / "good.dcm")
    assert not examine(FilmRecord("good", tmp_path / "good.dcm"), options).reason
    deflated(film, tmp_path / "bomb.dcm", extra=300 * MB)
    assert (tmp_path / "bomb.dcm").stat().st_size < MB
    tracemalloc.start()
    try:
        outcome = examine(FilmRecord("bomb", tmp_path / "bomb.dcm"), options)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (outcome.reason, outcome.detail) == (Reason.SHAPE, "inflates to more than a film can contain")
    assert peak < 30 * MB


@pytest.mark.parametrize("syntax", [JPEG2000Lossless, JPEGBaseline8Bit])
def test_a_compressed_film_that_announces_another_size_than_its_header_is_not_decoded(film, syntax):
    ds = compressed(film, syntax)
    assert announced(frame(ds), syntax) == (64, 48, 1)
    assert decode(ds).shape == (64, 48)
    ds.PixelData = encapsulate([enlarged(frame(ds), syntax)])
    with pytest.raises(Refused) as refusal:
        decode(ds)
    assert refusal.value.reason == Reason.UNDECODABLE
    assert refusal.value.detail.endswith("the pixels are 20000 x 20000, the header says 48 x 64")


def test_jpeg_ls_and_segments_before_the_size():
    size = b"\xff\xf7\x00\x0b\x0c" + struct.pack(">HH", 64, 48) + b"\x01\x01\x11\x00"
    stream = b"\xff\xd8" + b"\xff\xe8\x00\x06\xff\xc0\x00\x00" + b"\xff" + size  # SPIFF, then a fill byte
    assert announced(stream, JPEGLSLossless) == (64, 48, 1)
    for damaged in (b"", stream[2:], stream[:14], b"\xff\xd8\xff\xe8\x00\x00"):
        with pytest.raises(ValueError, match="no size"):
            announced(damaged, JPEGLSLossless)
