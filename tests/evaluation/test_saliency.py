import numpy as np
import pytest
import torch
from monai.networks.nets import DenseNet121
from torch import nn
from torchvision.models import resnet18

from fedpdc_med.common.errors import UserError
from fedpdc_med.evaluation.saliency import grad_cam, target_layer


class BrightSpot(nn.Module):
    """Class 1 is how bright the film is, class 0 how dark: on paper the map of class 1 is the bright spot."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, 2, 1), nn.ReLU(inplace=True))
        self.features[0].weight.data = torch.tensor([-1.0, 1.0]).reshape(2, 1, 1, 1)
        self.features[0].bias.data = torch.tensor([0.5, -0.5])

    def forward(self, films: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        pooled = self.features(films).mean(dim=(2, 3))
        return pooled, pooled


class SharedReLU(BrightSpot):
    """The same answer from two convolutions that share one in-place ReLU, as many small networks do."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.relu = nn.Conv2d(1, 1, 1), self.features[0], self.features[1]
        nn.init.ones_(self.first.weight)
        self.first.bias = nn.Parameter(torch.zeros(1))
        del self.features

    def forward(self, films: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        pooled = self.relu(self.second(self.relu(self.first(films)))).mean(dim=(2, 3))
        return pooled, pooled


class Around(nn.Module):
    """A network of another library as the package's models are: (projection, logits)."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, films: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        logits = self.network(films)
        return logits, logits


def films() -> torch.Tensor:
    pair = torch.zeros(2, 1, 16, 16)
    pair[0, 0, 2:6, 10:14] = 1.0
    pair[1, 0, 9:13, 1:5] = 0.8
    return pair


def test_the_map_is_where_the_spot_is_and_the_size_of_the_film():
    maps = grad_cam(BrightSpot(), films(), [1, 1])
    assert maps.shape == (2, 16, 16)
    assert (maps[0] > 0).sum() == 16 and (maps[0, 2:6, 10:14] == 1).all()
    assert (maps[1, 9:13, 1:5] == 1).all()  # every film reaches 1 on its own scale


def test_each_film_is_shown_for_the_class_it_is_called():
    light = 1 - films()
    together = torch.cat([films()[:1], light[:1]])  # called dark, called bright
    maps = grad_cam(BrightSpot(), together)
    assert maps[0, 3, 11] == 0 and maps[0, 0, 0] == 1
    assert maps[1, 3, 11] == 0 and maps[1, 0, 0] == 1
    assert np.allclose(maps[1], grad_cam(BrightSpot(), together[1:], [1])[0])


def test_a_shared_relu_is_passed_over():
    assert target_layer(SharedReLU(), films()[:1]) == "second"
    light = grad_cam(SharedReLU(), films(), [1, 1])
    assert (light[0, 2:6, 10:14] == 1).all() and (light[0] > 0).sum() == 16


def test_the_picture_before_a_pooling_is_finer_than_the_one_after():
    class Pooled(BrightSpot):
        def __init__(self) -> None:
            super().__init__()
            self.pool = nn.AdaptiveAvgPool2d(3)

        def forward(self, films: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            pooled = self.pool(self.features(films)).mean(dim=(2, 3))
            return pooled, pooled

    assert target_layer(Pooled(), films()[:1]) == "features"


def test_nothing_found_is_a_map_of_zeros():
    assert (grad_cam(BrightSpot(), torch.zeros(1, 1, 8, 8), [1]) == 0).all()


def test_the_model_stays_as_it_was():
    model = BrightSpot().train().requires_grad_(False)
    grad_cam(model, films(), [1, 0])
    assert model.training and model.features[1].inplace
    assert not any(p.requires_grad or p.grad is not None for p in model.parameters())
    assert not any(m._forward_hooks or m._backward_hooks for m in model.modules())


@pytest.mark.parametrize(
    ("network", "layer"),
    [
        (lambda: DenseNet121(spatial_dims=2, in_channels=1, out_channels=3), "network.class_layers.relu"),
        (lambda: resnet18(num_classes=3), "network.layer4"),
    ],
)
def test_known_networks_are_shown_at_their_last_picture(network, layer):
    torch.manual_seed(0)
    model = Around(network()).eval()
    channels = 1 if "class_layers" in layer else 3
    batch = torch.rand(2, channels, 64, 64)
    assert target_layer(model, batch[:1]) == layer
    maps = grad_cam(model, batch)
    assert maps.shape == (2, 64, 64) and maps.min() >= 0 and maps.max() <= 1
    # A film's map does not depend on which films are beside it.
    assert np.allclose(maps[1:], grad_cam(model, batch[1:]), atol=1e-4)


def test_a_model_without_pictures_is_said():
    with pytest.raises(UserError, match="has an image as its output"):
        grad_cam(Around(nn.Sequential(nn.Flatten(), nn.Linear(64, 2))), torch.zeros(1, 1, 8, 8))
