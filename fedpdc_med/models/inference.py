"""Turns uint8 images into network input, and network output into probabilities."""

import numpy as np
import torch
from torch import Tensor, nn

from fedpdc_med.runs.plan import Preparation


def normalise(images: Tensor, preparation: Preparation) -> Tensor:
    """uint8 N x C x H x W -> float32, channels last."""
    if preparation.per_image:
        pixels = images.float()
        spread, centre = torch.std_mean(pixels, dim=(1, 2, 3), keepdim=True)
        return ((pixels - centre) / (spread + 1)).contiguous(memory_format=torch.channels_last)
    count, channels, height, width = images.shape
    std = torch.tensor(preparation.std, device=images.device)
    # Repeated for every pixel, because multiplying one long row is far faster than many short ones.
    scale = (1 / std).repeat(height * width)
    offset = (-torch.tensor(preparation.mean, device=images.device) / std).repeat(height * width)
    rows = images.permute(0, 2, 3, 1).contiguous().view(count, -1).float()
    return rows.mul_(scale).add_(offset).view(count, height, width, channels).permute(0, 3, 1, 2)


@torch.inference_mode()
def predict(
    model: nn.Module, images: Tensor, preparation: Preparation, start: int, stop: int, step: int = 500
) -> np.ndarray:
    """Probabilities, float32 (films, classes), of the images at start:stop."""
    model.eval()
    parts = []
    for at in range(start, stop, step):
        _, logits = model(normalise(images[at : min(at + step, stop)], preparation))
        parts.append(torch.softmax(logits, dim=1))
    return torch.cat(parts).cpu().numpy()
