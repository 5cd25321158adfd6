"""The paper's CNN."""

import torch.nn.functional as F
from torch import Tensor, nn

from fedpdc_med.common.errors import UserError


class PaperCNN(nn.Module):
    """conv 5x5x6, pool, conv 5x5x16, pool, fc 120, fc 84, ReLU between."""

    width = 84

    def __init__(self, channels: int, size: int, norm: str = "batch") -> None:
        super().__init__()
        side = ((size - 4) // 2 - 4) // 2
        if side < 1:
            raise UserError(f"the paper's CNN needs images of at least 16 x 16 pixels, not {size} x {size}")
        self.conv1 = nn.Conv2d(channels, 6, 5)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(16 * side * side, 120)
        self.fc2 = nn.Linear(120, 84)

    def forward(self, images: Tensor) -> Tensor:
        # Pooling before the ReLU gives the same numbers, because ReLU is monotone, with a quarter of the work.
        x = F.relu(F.max_pool2d(self.conv1(images), 2))
        x = F.relu(F.max_pool2d(self.conv2(x), 2))
        x = F.relu(self.fc1(x.flatten(1)))
        return F.relu(self.fc2(x))
