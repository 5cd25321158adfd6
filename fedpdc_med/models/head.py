"""The paper's head, behind every encoder."""

from torch import Tensor, nn


class WithHead(nn.Module):
    """encoder -> 2-layer MLP to a 256-vector (which MOON contrasts) -> one linear layer to the classes."""

    def __init__(self, encoder: nn.Module, classes: int, projection: int = 256) -> None:
        super().__init__()
        self.encoder = encoder
        width: int = encoder.width  # type: ignore[assignment]
        self.project = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, projection))
        self.classify = nn.Linear(projection, classes)

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        projection = self.project(self.encoder(images))
        return projection, self.classify(projection)
