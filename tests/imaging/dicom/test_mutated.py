"""2,000 damaged DICOM files: every one gets a verdict, and what is not accepted a reason."""

import io

import numpy as np
import pydicom
import pytest
from PIL import Image
from pydicom.encaps import encapsulate
from pydicom.uid import JPEG2000Lossless, JPEGBaseline8Bit, RLELossless

from fedpdc_med.imaging.ingest.labels import one_label
from fedpdc_med.imaging.ingest.pipeline import ingest
from fedpdc_med.imaging.records import Reason

COUNT = 2000


def originals(film) -> list[bytes]:
    """Plain, JPEG 2000, RLE and JPEG films of 48 x 48 pixels."""
    pixels = np.random.default_rng(0).integers(0, 4096, (48, 48)).astype(np.uint16)
    plain = film(pixels, BitsStored=12, HighBit=11, WindowCenter=2000, WindowWidth=4000, PatientOrientation=["L", "F"])
    films = [plain]
    for syntax in (JPEG2000Lossless, RLELossless):
        packed = film(pixels, BitsStored=12, HighBit=11)
        packed.compress(syntax)
        films.append(packed)
    jpeg = io.BytesIO()
    Image.fromarray((pixels // 16).astype(np.uint8)).save(jpeg, "jpeg")
    baseline = film((pixels // 16).astype(np.uint8))
    baseline.PixelData = encapsulate([jpeg.getvalue()])
    baseline.file_meta.TransferSyntaxUID = JPEGBaseline8Bit
    films.append(baseline)
    return [_bytes(ds) for ds in films]


def _bytes(ds: pydicom.Dataset) -> bytes:
    out = io.BytesIO()
    ds.save_as(out, enforce_file_format=True)
    return out.getvalue()


def flip(data: bytes, rng: np.random.Generator, low: int, high: int) -> bytes:
    broken = bytearray(data)
    for place in rng.integers(low, min(high, len(data)), rng.integers(1, 12)):
        broken[place] = rng.integers(256)
    return bytes(broken)


def without_a_tag(data: bytes, rng: np.random.Generator) -> bytes:
    ds = pydicom.dcmread(io.BytesIO(data))
    tags = list(ds.keys())
    del ds[tags[rng.integers(len(tags))]]
    return _bytes(ds)


def wrong_length(data: bytes, rng: np.random.Generator) -> bytes:
    """The two bytes after a value representation such as UI or CS are the length of what follows."""
    kinds = [
        i
        for kind in (b"UI", b"CS", b"LO", b"US", b"PN", b"OW", b"OB")
        for i in range(132, len(data) - 4)
        if data[i : i + 2] == kind
    ]
    place = kinds[rng.integers(len(kinds))] + 2
    return data[:place] + int(rng.integers(65536)).to_bytes(2, "little") + data[place + 2 :]


def mutate(data: bytes, kind: int, rng: np.random.Generator) -> bytes:
    return [
        lambda: flip(data, rng, 132, 900),  # the header
        lambda: flip(data, rng, 900, len(data)),  # mostly pixels
        lambda: without_a_tag(data, rng),
        lambda: wrong_length(data, rng),
        lambda: data[: rng.integers(len(data))],
        lambda: data + rng.bytes(200),
        lambda: b"" if rng.random() < 0.5 else b"Dear colleague, please find attached\n" * 20,
    ][kind]()


@pytest.mark.filterwarnings("ignore")
def test_damaged_files_are_refused_one_by_one_with_a_reason(tmp_path, film, fedpdc_home):
    source = tmp_path / "films"
    source.mkdir()
    rng, good = np.random.default_rng(1), originals(film)
    for i in range(COUNT):
        (source / f"{i:04d}.dcm").write_bytes(mutate(good[i % len(good)], i // len(good) % 7, rng))
    result = ingest(source, "site", labels=one_label("normal"), processes=2, seconds=10)
    assert [place for place, *_ in result.report] == list(range(1, COUNT + 1))
    reasons = {reason for _, verdict, reason, _ in result.report if verdict != "accepted"}
    assert reasons <= set(Reason) and "" not in reasons
    assert all(not reason for _, verdict, reason, _ in result.report if verdict == "accepted")
    assert {Reason.NOT_DICOM, Reason.UNDECODABLE, Reason.NO_PIXELS, Reason.MODALITY, Reason.NO_PATIENT} <= reasons
    assert not {Reason.TIMED_OUT, Reason.CRASHED} & reasons and result.replaced == 0
