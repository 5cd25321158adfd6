"""Films in memory (uint8), and the batched tensor operations that make training batches from them."""

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from fedpdc_med.models.inference import normalise
from fedpdc_med.runs.plan import Preparation


@dataclass(frozen=True)
class Films:
    """Images (uint8, N x C x H x W, stored channels last, which is fastest for CPU convolutions) and labels."""

    images: Tensor
    labels: Tensor

    @classmethod
    def of(cls, images: np.ndarray, labels: np.ndarray) -> "Films":
        pixels = torch.from_numpy(np.ascontiguousarray(images.transpose(0, 2, 3, 1))).permute(0, 3, 1, 2)
        return cls(pixels, torch.tensor(np.asarray(labels, dtype=np.int64)))

    def __len__(self) -> int:
        return len(self.labels)


class TrainingFilms:
    """One site's films, ready for augmented batches and read from the shared pool without a copy."""

    def __init__(self, films: Films, indices: np.ndarray | None, preparation: Preparation) -> None:
        device = films.images.device
        self.pool, self.preparation = films.images.permute(0, 2, 3, 1), preparation  # N x H x W x C, contiguous
        self.places = torch.arange(len(films)) if indices is None else torch.from_numpy(indices)
        self.places = self.places.to(device)
        self.labels = films.labels[self.places]
        self.near = _reflected(self.pool.shape[1], preparation.pad).to(device)

    def __len__(self) -> int:
        return len(self.labels)

    def batch(self, chosen: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Augmented, normalised images and labels at these positions."""
        pixels = self._cropped(self.places[chosen], generator).permute(0, 3, 1, 2)
        images = normalise(pixels, self.preparation)
        return _distort(images, self.preparation, generator), self.labels[chosen]

    def _cropped(self, films: Tensor, generator: torch.Generator) -> Tensor:
        """A window of each padded film, possibly mirrored, by a single lookup of its pixels."""
        pad, size, channels = self.preparation.pad, self.pool.shape[1], self.pool.shape[3]
        if not pad and not self.preparation.flip:
            return self.pool.index_select(0, films)

        def draw(below: int) -> Tensor:
            return torch.randint(below, (len(films), 1), generator=generator).to(films.device)

        steps = torch.arange(size, device=films.device)
        down, right = draw(2 * pad + 1) + steps, draw(2 * pad + 1) + steps
        if self.preparation.flip:
            right = torch.where(draw(2) == 1, right.flip(1), right)
        rows = films[:, None] * size + self.near[down]
        pixels = (rows * size)[:, :, None] + self.near[right][:, None, :]
        window = self.pool.view(-1, channels).index_select(0, pixels.view(-1)).view(len(films), size, size, channels)
        if pad and self.preparation.pad_mode == "zero":
            inside = [(place >= pad) & (place < size + pad) for place in (down, right)]
            window *= (inside[0][:, :, None] & inside[1][:, None, :])[..., None]
        return window


def _reflected(size: int, pad: int) -> Tensor:
    """The row (or column) of the film that each row of the padded film repeats."""
    place = torch.arange(-pad, size + pad).abs()
    return torch.where(place >= size, 2 * (size - 1) - place, place)


def _distort(images: Tensor, preparation: Preparation, generator: torch.Generator) -> Tensor:
    """Small rotations, shifts, zooms and contrast changes, each drawn per image."""

    def draw(limit: float) -> Tensor:
        return ((torch.rand(len(images), generator=generator) * 2 - 1) * limit).to(images.device)

    if preparation.rotate or preparation.shift or preparation.zoom:
        angle, zoom = torch.deg2rad(draw(preparation.rotate)), 1 + draw(preparation.zoom)
        cos, sin = angle.cos() * zoom, angle.sin() * zoom
        matrix = torch.stack([cos, -sin, 2 * draw(preparation.shift), sin, cos, 2 * draw(preparation.shift)], dim=1)
        grid = F.affine_grid(matrix.view(-1, 2, 3), list(images.shape), align_corners=False)
        images = _sample(images, grid, preparation)
    if preparation.contrast:
        stretch = (1 + draw(preparation.contrast)).view(-1, 1, 1, 1)
        centre = images.mean(dim=(1, 2, 3), keepdim=True)
        images = (images - centre) * stretch + centre
    return images


def _sample(images: Tensor, grid: Tensor, preparation: Preparation) -> Tensor:
    """Outside the image is black, which after normalisation is -mean/std, not zero."""
    black = -torch.tensor(preparation.mean, device=images.device) / torch.tensor(preparation.std, device=images.device)
    black = black.view(1, -1, 1, 1)
    return F.grid_sample(images - black, grid, mode="bilinear", align_corners=False) + black
