"""Duplicate films: exact, by the hash of the stored pixels, or near, by a perceptual hash.

The perceptual hash follows imagehash.phash with 24 x 24 bits, computed as two small matrix products: the library takes
longer for it than reading and decoding a small film takes in total. imagehash.hex_to_hash can read it.

Measured on 1,527 real films (covid-chestxray-dataset and darkcovidnet, 1.16 million pairs): copies of one film that
were scaled or recompressed differently differ in at most 48 of 576 bits, and the closest films of two patients in 168.
Synthetic films are more similar; the closest two of 1,962 differ in 80. A film that was cropped differently (100 bits
or more) is not recognised.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.fft import dct
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from fedpdc_med.common.errors import UserError

HASH_SIDE = 24
NEAR = 60
BLOCK = 4096


def perceptual_hash(film: NDArray[np.uint8]) -> str:
    """144 hex digits: which of the 576 lowest spatial frequencies are above their median."""
    rows, columns = film.shape[-2:]
    low = _cosines(rows) @ film.reshape(rows, columns).astype(np.float32) @ _cosines(columns).T
    ordered = np.sort(low, axis=None)
    median = (ordered[low.size // 2 - 1] + ordered[low.size // 2]) / 2
    return np.packbits(low > median).tobytes().hex()


@lru_cache
def _cosines(size: int) -> NDArray[np.float32]:
    return dct(np.eye(size), axis=0)[:HASH_SIDE].astype(np.float32)


class Pairs(NamedTuple):
    first: NDArray[np.int64]
    second: NDArray[np.int64]


def near_pairs(hashes: list[str], others: list[str] | None = None, most_bits: int = NEAR) -> Pairs:
    """Indices of all pairs that differ in at most `most_bits` bits; within one list, each pair once."""
    left = _signs(hashes)
    right = left if others is None else _signs(others)
    first, second = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    # For vectors of +1 and -1 the dot product is bits - 2 * distance, so one matrix product compares a whole block.
    least = left.shape[1] - 2 * most_bits
    for start in range(0, len(left), BLOCK):
        for across in range(start if others is None else 0, len(right), BLOCK):
            i, j = np.nonzero(left[start : start + BLOCK] @ right[across : across + BLOCK].T >= least)
            first.append(i + start)
            second.append(j + across)
    i, j = np.concatenate(first), np.concatenate(second)
    keep = i < j if others is None else np.ones(len(i), bool)
    return Pairs(i[keep], j[keep])


def _signs(hashes: list[str]) -> NDArray[np.float32]:
    if not hashes:
        return np.empty((0, HASH_SIDE**2), np.float32)
    packed = np.frombuffer(bytes.fromhex("".join(hashes)), np.uint8).reshape(len(hashes), -1)
    return np.unpackbits(packed, axis=1).astype(np.float32) * 2 - 1


def groups(patients: list[str], hashes: list[str]) -> NDArray[np.int64]:
    """A group number per film: films of one patient, and near-duplicates of each other, must stay in one split."""
    _, patient = np.unique(np.asarray(patients, dtype=str), return_inverse=True)
    n, twins = len(patients), near_pairs(hashes)
    # Films are nodes 0..n-1 and patients the nodes after them.
    rows = np.concatenate([np.arange(n), twins.first])
    columns = np.concatenate([n + patient, twins.second])
    size = n + (int(patient.max()) + 1 if n else 0)
    _, component = connected_components(
        coo_array((np.ones(len(rows)), (rows, columns)), shape=(size, size)), directed=False
    )
    return component[:n].astype(np.int64)


@dataclass(frozen=True)
class Overlap:
    """Films of a site that are also in the reference set, each counted once by the strongest evidence."""

    films: NDArray[np.bool_]
    same: int
    near: int
    patient_only: int
    patients: int

    def __bool__(self) -> bool:
        return bool(self.films.any())


def overlap(manifest: pd.DataFrame, reference: pd.DataFrame) -> Overlap:
    """Films of a site that are in the reference set, or show one of its patients.

    Pseudonyms can only be equal for published datasets, because every site has its own key; but a film that is also in
    the reference set shows which patient of the site is in it, and all films of that patient count.
    """
    same = (manifest["pixel_hash"].isin(reference["pixel_hash"]) | manifest["film"].isin(reference["film"])).to_numpy(
        bool
    )
    near = np.zeros(len(manifest), bool)
    near[near_pairs(list(manifest["perceptual_hash"]), list(reference["perceptual_hash"])).first] = True
    patient = manifest["patient"].isin(reference["patient"]).to_numpy(bool)
    of_found = manifest["patient"].isin(manifest.loc[same | near, "patient"]).to_numpy(bool)
    patient = patient | of_found
    shared = same | near | patient
    return Overlap(
        shared,
        int(same.sum()),
        int((near & ~same).sum()),
        int((patient & ~near & ~same).sum()),
        int(manifest.loc[shared, "patient"].nunique()),
    )


def check_overlap(site: str, manifest: pd.DataFrame, reference: pd.DataFrame) -> None:
    """A site that has trained on the films that score it would get too high a score."""
    found = overlap(manifest, reference)
    if not found:
        return
    raise UserError(
        f"site {site}: {int(found.films.sum())} of its {len(manifest)} films ({found.patients} patients) are also in "
        f"the reference set ({found.same} the same film, {found.near} nearly the same, {found.patient_only} another "
        "film of the same patient), which would inflate its score; ingest the site again with --exclude and the folder "
        "of the reference set, or build the reference set from other films"
    )
