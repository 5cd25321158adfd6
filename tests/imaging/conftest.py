"""Tiny DICOM films for the tests of the imaging room."""

from pathlib import Path

import numpy as np
import pytest
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.uid import ComputedRadiographyImageStorage, ExplicitVRLittleEndian, generate_uid


def _film(pixels=None, path: Path | None = None, **elements) -> Dataset:
    """A CR film of a chest, PA, MONOCHROME2; `elements` replace any of its elements, None takes one away."""
    if pixels is None:
        seed = sum(map(ord, str(elements.get("SOPInstanceUID", path))))
        pixels = np.random.default_rng(seed).integers(0, 4096, (64, 64)).astype(np.uint16)
    pixels = np.asarray(pixels)
    bits = pixels.dtype.itemsize * 8
    ds = Dataset()
    ds.SOPClassUID = ComputedRadiographyImageStorage
    ds.SOPInstanceUID = generate_uid(entropy_srcs=["film", str(path)])
    ds.StudyInstanceUID, ds.SeriesInstanceUID = generate_uid(), generate_uid()
    ds.Modality, ds.BodyPartExamined, ds.ViewPosition = "CR", "CHEST", "PA"
    ds.PatientID, ds.PatientName, ds.PatientSex, ds.PatientAge = "4711", "Doe^Jane", "F", "054Y"
    ds.SamplesPerPixel, ds.PhotometricInterpretation = 1, "MONOCHROME2"
    ds.Rows, ds.Columns = pixels.shape
    ds.BitsAllocated, ds.BitsStored, ds.HighBit = bits, bits, bits - 1
    ds.PixelRepresentation = int(pixels.dtype.kind == "i")
    ds.PixelData = pixels.tobytes()
    ds["PixelData"].VR = "OB" if bits == 8 else "OW"
    ds.file_meta = FileMetaDataset()
    ds.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    for keyword, value in elements.items():
        if value is None:
            delattr(ds, keyword)
        else:
            setattr(ds, keyword, value)
    if path is not None:
        ds.save_as(path, enforce_file_format=True)
    return ds


@pytest.fixture
def film():
    return _film


@pytest.fixture
def fedpdc_home(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("FEDPDC_HOME", str(tmp_path / "home"))
    return tmp_path / "home"
