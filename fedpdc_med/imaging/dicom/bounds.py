"""Limits on what a file may make a decoder do: a few kilobytes can announce gigabytes, and decoders believe them.

Sizes are read before anything is decoded. For what cannot be known in advance, worker processes have a memory limit.
"""

import zlib
from collections.abc import Iterator
from struct import unpack
from typing import BinaryIO

from pydicom.dataset import Dataset
from pydicom.encaps import get_frame
from pydicom.filereader import read_dataset, read_preamble
from pydicom.uid import UID, DeflatedExplicitVRLittleEndian, JPEG2000TransferSyntaxes, RLELossless

from fedpdc_med.imaging.dicom.header import MOST_PIXELS
from fedpdc_med.imaging.records import Reason, Refused

MB = 1 << 20
MOST_BYTES = 2 * MOST_PIXELS + 16 * MB  # of a film's elements: 16 bits per pixel, and a generous header
# Start of image; the frame headers (SOF 0-15 without three other segments, hierarchical, JPEG-LS) that say the size.
_START, _SIZES = b"\xff\xd8", {*range(0xC0, 0xD0), 0xDE, 0xF7} - {0xC4, 0xC8, 0xCC}


def check_inflated(file: BinaryIO) -> None:
    """pydicom inflates a deflated file as a whole, up to a thousand times its size."""
    read_preamble(file, force=False)
    meta = read_dataset(file, False, True, stop_when=lambda tag, *_: tag.group != 2)
    if meta.get("TransferSyntaxUID") == DeflatedExplicitVRLittleEndian:
        size = 0
        for piece in _inflated(file):
            if (size := size + len(piece)) > MOST_BYTES:
                raise Refused(Reason.SHAPE, "inflates to more than a film can contain")
    file.seek(0)


def _inflated(file: BinaryIO) -> Iterator[bytes]:
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    while packed := inflater.unconsumed_tail or file.read(MB):
        yield inflater.decompress(packed, MB)


def check_announced(ds: Dataset, syntax: UID) -> None:
    """The compressed stream's own header decides how much memory its decoder uses; it must match the DICOM header."""
    if not syntax.is_encapsulated or syntax == RLELossless:  # RLE has no header and grows at most 64 times
        return
    rows, columns, samples = announced(get_frame(ds.PixelData, 0, number_of_frames=1), syntax)
    if (rows, columns, samples) != (ds.Rows, ds.Columns, ds.SamplesPerPixel):
        colours = f" of {samples} colours" if samples != ds.SamplesPerPixel else ""
        raise Refused(
            Reason.UNDECODABLE,
            f"{syntax.name}: the pixels are {columns} x {rows}{colours}, the header says {ds.Columns} x {ds.Rows}",
        )


def announced(stream: bytes, syntax: UID) -> tuple[int, int, int]:
    """Rows, columns and samples per pixel."""
    if syntax in JPEG2000TransferSyntaxes:
        import openjpeg  # from pylibjpeg-openjpeg, without which pydicom does not support the syntax

        found = openjpeg.get_parameters(stream)
        return int(found["rows"]), int(found["columns"]), int(found["samples_per_pixel"])
    return _jpeg_size(stream)


def _jpeg_size(stream: bytes) -> tuple[int, int, int]:
    """From the first frame header of a JPEG or JPEG-LS stream; libjpeg itself would read the whole stream."""
    at = 2 if stream.startswith(_START) else len(stream)
    while at + 10 <= len(stream) and stream[at] == 0xFF:
        if stream[at + 1] in _SIZES:
            rows, columns, samples = unpack(">HHB", stream[at + 5 : at + 10])
            return rows, columns, samples
        at += 1 if stream[at + 1] == 0xFF else 2 + max(2, int.from_bytes(stream[at + 2 : at + 4], "big"))
    raise ValueError("no size in the stream")
