"""Batched augmentation against per-image work with the same draws."""

import numpy as np
import pytest
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


def blob(count, size=33):
    """A bright round spot in the middle of black, as many times."""
    steps = np.arange(size) - size // 2
    spot = 250 * np.exp(-(steps[:, None] ** 2 + steps[None, :] ** 2) / 18)
    return Films.of(np.repeat(spot.astype(np.uint8)[None, None], count, axis=0), np.arange(count))


def distorted(count=40, seed=1, **how):
    films = blob(count)
    preparation = Preparation(mean=(0.0,), std=(1.0,), **how)
    return TrainingFilms(films, None, preparation).batch(torch.arange(count), torch.Generator().manual_seed(seed))[0]


def places(images):
    """The spot's centre (down, right) from the middle, and its area in relation to the original's."""
    images = images[:, 0].double()
    mass, steps = images.sum(dim=(1, 2)), torch.arange(33.0) - 16
    down, right = (images.sum(dim=3 - axis) @ steps.double() / mass for axis in (1, 2))
    return down, right, mass / distorted()[0].sum()


def test_shift_moves_each_image_up_to_its_share_of_the_width_and_changes_nothing_else():
    down, right, area = places(distorted(shift=0.1))
    for moved in (down, right):
        assert moved.abs().max() <= 3.3 + 1e-3 and moved.min() < -2 and moved.max() > 2  # 0.1 of 33 pixels
    assert (down - right).abs().max() > 2  # each drawn on its own
    assert torch.allclose(area, torch.ones_like(area), atol=0.01)


def test_zoom_changes_the_size_by_up_to_its_share_around_the_middle():
    down, right, area = places(distorted(zoom=0.2))
    assert torch.stack([down, right]).abs().max() < 0.1
    assert area.max() + -1e-2 <= 0.8**-2 and area.max() > 1.3  # seen from 0.8 of the distance, the spot is 1 / 0.64
    assert area.min() >= 1.2**-2 - 1e-2 and area.min() < 0.8


def test_contrast_stretches_around_the_mean_of_the_image():
    plain, images = distorted()[0], distorted(contrast=0.3)
    centre = plain.mean()
    stretch = (images - centre).flatten(1).norm(dim=1) / (plain - centre).norm()
    assert torch.allclose(images, centre + stretch.view(-1, 1, 1, 1) * (plain - centre), atol=1e-2)
    assert stretch.min() >= 0.7 - 1e-4 and stretch.max() <= 1.3 + 1e-4 and stretch.max() - stretch.min() > 0.4


def test_per_image_normalisation_comes_before_rotation_which_fills_with_black():
    """As every simulation does: a constant film is 0 whatever its level, and what lies outside is (0 - 110) / 60."""
    bright = Films.of(np.full((1, 1, 9, 9), 200, np.uint8), np.array([0]))
    preparation = Preparation(mean=(110.0,), std=(60.0,), per_image=True, rotate=45.0)
    image = TrainingFilms(bright, None, preparation).batch(torch.tensor([0]), torch.Generator().manual_seed(3))[0][0]
    assert image[0, 4, 4].item() == pytest.approx(0, abs=1e-4)
    assert torch.allclose(image[:, ::8, ::8], torch.tensor(-110 / 60), atol=1e-4)  # turned by 44.6 degrees
