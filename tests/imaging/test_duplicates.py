"""Films that are the same, or nearly."""

import io
import time

import imagehash
import numpy as np
import pandas as pd
import pytest
from PIL import Image

from fedpdc_med.common.errors import UserError
from fedpdc_med.imaging.duplicates import NEAR, check_overlap, groups, near_pairs, overlap, perceptual_hash
from fedpdc_med.imaging.ingest.resize import picture, to_working_size


def bits_apart(one: str, other: str) -> int:
    return (int(one, 16) ^ int(other, 16)).bit_count()


def flipped(text: str, bits: int) -> str:
    return f"{int(text, 16) ^ ((1 << bits) - 1):0144x}"


def smooth_film(seed: int, side: int = 128) -> np.ndarray:
    rng = np.random.default_rng(seed)
    small = Image.fromarray(rng.integers(0, 256, (24, 24)).astype(np.uint8))
    return np.asarray(small.resize((side, side), Image.Resampling.BICUBIC))


def test_the_hash_is_that_of_imagehash_but_for_its_way_of_scaling():
    film = smooth_film(1)
    theirs = str(imagehash.phash(Image.fromarray(film), hash_size=24))
    assert len(perceptual_hash(film)) == len(theirs) == 144
    assert bits_apart(perceptual_hash(film), theirs) < 20


def test_a_copy_scaled_and_recompressed_is_near_and_another_film_is_far():
    film = Image.fromarray(smooth_film(1, 400))
    packed = io.BytesIO()
    film.resize((300, 300), Image.Resampling.LANCZOS).save(packed, "jpeg", quality=70)
    copy = np.asarray(Image.open(packed).resize((128, 128), Image.Resampling.BOX))
    original = np.asarray(film.resize((128, 128), Image.Resampling.BOX))
    assert bits_apart(perceptual_hash(original), perceptual_hash(copy)) <= NEAR
    assert bits_apart(perceptual_hash(original), perceptual_hash(smooth_film(2))) > 200


def test_pairs_are_found_up_to_the_given_distance_and_no_further():
    zero = "0" * 144
    hashes = [zero, flipped(zero, 5), flipped(zero, 9)]
    assert list(zip(*near_pairs(hashes, most_bits=5), strict=True)) == [(0, 1), (1, 2)]
    assert list(zip(*near_pairs(hashes, most_bits=9), strict=True)) == [(0, 1), (0, 2), (1, 2)]
    assert list(zip(*near_pairs([zero], hashes, most_bits=8), strict=True)) == [(0, 0), (0, 1)]
    assert near_pairs([]).first.size == near_pairs([], hashes).first.size == 0


def test_ten_thousand_films_against_ten_thousand_take_seconds():
    rng = np.random.default_rng(0)
    ours, theirs = ([rng.bytes(72).hex() for _ in range(10_000)] for _ in range(2))
    theirs[77] = ours[9_999]
    began = time.process_time()
    assert list(zip(*near_pairs(ours, theirs), strict=True)) == [(9_999, 77)]
    assert time.process_time() - began < 30


def test_films_of_one_patient_and_near_duplicates_are_one_group():
    far = [np.random.default_rng(i).bytes(72).hex() for i in range(5)]
    # Films 0 and 1 are one patient's; 1 and 2 look alike; 3 and 4 have nothing to do with each other.
    found = groups(["a", "a", "b", "c", "d"], [far[0], far[1], flipped(far[1], 10), far[3], far[4]])
    assert found[0] == found[1] == found[2]
    assert len({found[0], found[3], found[4]}) == 3
    assert len(groups([], [])) == 0


def manifest(*rows: tuple[str, str, str, str]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["film", "patient", "pixel_hash", "perceptual_hash"])


def test_overlap_counts_each_film_once_by_the_strongest_evidence():
    a, b, c, d, e = (np.random.default_rng(i).bytes(72).hex() for i in range(5))
    reference = manifest(("f1", "p1", "x1", a), ("f2", "p2", "x2", b))
    site = manifest(
        ("f9", "p9", "x1", a),
        ("f8", "p8", "x8", flipped(b, 12)),
        ("f7", "p2", "x7", c),
        ("f1", "p6", "x6", d),
        ("f5", "p9", "x5", e),
    )
    found = overlap(site, reference)
    # The last film is like none of the reference, but the first one shows that its patient p9 is in it.
    assert list(found.films) == [True, True, True, True, True]
    assert (found.same, found.near, found.patient_only, found.patients) == (2, 1, 2, 4)
    with pytest.raises(UserError, match=r"site harbor: 5 of its 5 films \(4 patients\).*--exclude"):
        check_overlap("harbor", site, reference)
    check_overlap("harbor", site.iloc[4:], reference)


def test_copies_of_real_films_in_two_collections_are_found_and_different_films_are_not(real_data):
    """Files of one name with the same proportions are copies at other scales; the NIH films are all different."""
    dark = sorted((real_data("darkcovidnet") / "Covid-19").iterdir())
    pairs = [(p, q) for p in dark if (q := real_data("covid-chestxray-dataset") / "images" / p.name).exists()]
    ours, theirs = ([perceptual_hash(to_working_size(picture(p[i])[0], 128)) for p in pairs] for i in (0, 1))
    distances = np.array([bits_apart(a, b) for a, b in zip(ours, theirs, strict=True)])
    assert (distances <= NEAR).sum() >= 50
    # Between copies (at most 22 bits) and films cropped differently (100 and more) there is nothing to be unsure of.
    assert not ((distances > NEAR / 2) & (distances < NEAR * 1.5)).any()
    nih = sorted((real_data("darkcovidnet") / "No_findings").iterdir())[:200]
    assert near_pairs([perceptual_hash(to_working_size(picture(p)[0], 128)) for p in nih]).first.size == 0
