"""Batched augmentation against per-image work with the same draws."""

import numpy as np
import torch
import torch.nn.functional as F

from fedpdc_med.federation.images import Films, TrainingFilms
from fedpdc_med.models.inference import normalise
from fedpdc_med.runs.plan import Preparation

RNG = np.random.default_rng(0)
IMAGES = RNG.integers(0, 256, (6, 3, 8, 8), dtype=np.uint8)
FILMS = Films.of(IMAGES, np.arange(6))


def plain(**more):
    return Preparation(mean=(0.0,) * 3, std=(1.0,) * 3, **more)


def test_normalising_by_hand():
    films = Films.of(np.full((1, 3, 2, 2), 100, np.uint8), np.array([0]))
    out = normalise(films.images, Preparation(mean=(100.0, 90.0, 50.0), std=(10.0, 10.0, 25.0)))
    assert torch.allclose(out[0, :, 0, 0], torch.tensor([0.0, 1.0, 2.0]), atol=1e-6)
    assert out.is_contiguous(memory_format=torch.channels_last)


def test_without_augmentation_a_batch_is_the_images_themselves():
    images, labels = TrainingFilms(FILMS, np.array([1, 3, 5]), plain()).batch(torch.tensor([2, 0]), torch.Generator())
    assert torch.equal(images, torch.from_numpy(IMAGES[[5, 1]]).float())
    assert labels.tolist() == [5, 1]


def every_crop(image, pad, mode):
    """All crops and flips that padding allows, by PyTorch's own padding."""
    padded = F.pad(
        torch.from_numpy(image).float()[None], (pad,) * 4, mode="reflect" if mode == "reflect" else "constant"
    )
    size = image.shape[-1]
    crops = [padded[0, :, y : y + size, x : x + size] for y in range(2 * pad + 1) for x in range(2 * pad + 1)]
    return crops + [crop.flip(-1) for crop in crops]


def test_random_crops_and_flips_are_windows_of_the_padded_image():
    for mode in ("reflect", "zero"):
        training = TrainingFilms(FILMS, None, plain(pad=2, pad_mode=mode, flip=True))
        generator = torch.Generator().manual_seed(1)
        seen = set()
        for _ in range(40):
            images, labels = training.batch(torch.arange(6), generator)
            for image, label in zip(images, labels.tolist(), strict=True):
                matches = [i for i, crop in enumerate(every_crop(IMAGES[label], 2, mode)) if torch.equal(crop, image)]
                assert matches, f"{mode}: a batch holds something that is no crop of its image"
                seen.add(matches[0])
        assert len(seen) == 50  # 5 x 5 places, mirrored or not


def test_the_same_generator_gives_the_same_batch():
    training = TrainingFilms(FILMS, None, plain(rotate=15.0, shift=0.1, zoom=0.1, contrast=0.2))
    first, second = (training.batch(torch.arange(6), torch.Generator().manual_seed(4))[0] for _ in range(2))
    assert torch.equal(first, second)
    assert not torch.equal(first, torch.from_numpy(IMAGES).float())


def test_rotation_fills_with_black_and_keeps_the_centre():
    bright = Films.of(np.full((1, 3, 9, 9), 200, np.uint8), np.array([0]))
    preparation = Preparation(mean=(50.0,) * 3, std=(50.0,) * 3, rotate=45.0)
    image = TrainingFilms(bright, None, preparation).batch(torch.tensor([0]), torch.Generator().manual_seed(3))[0][0]
    assert torch.allclose(image[:, 4, 4], torch.tensor(3.0), atol=1e-4)  # (200 - 50) / 50
    corners = image[:, ::8, ::8]  # this generator turns by 44.6 degrees: the corners show what lies outside
    assert torch.allclose(corners, torch.tensor(-1.0), atol=1e-4)  # black is (0 - 50) / 50


def test_per_image_normalisation_hides_exposure():
    """A film and the same film twice as bright and 20 levels higher look alike to the network."""
    dim = np.random.default_rng(1).integers(0, 100, (1, 1, 8, 8), dtype=np.uint8)
    preparation = Preparation(mean=(0.0,), std=(1.0,), per_image=True)
    first, second = (normalise(Films.of(image, np.array([0])).images, preparation) for image in (dim, dim * 2 + 20))
    assert abs(first.mean().item()) < 1e-5
    assert torch.allclose(first, second, atol=0.06)  # the 1 added to the spread keeps an empty film finite
    blank = normalise(Films.of(np.full((1, 1, 8, 8), 7, np.uint8), np.array([0])).images, preparation)
    assert torch.equal(blank, torch.zeros(1, 1, 8, 8))
