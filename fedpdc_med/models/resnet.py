"""torchvision's ResNets with the stem that small images need."""

from functools import partial

from torch import nn

SMALL_IMAGE = 64  # up to this size the ImageNet stem would reduce the image to almost nothing


def _resnet(name: str, channels: int, size: int, norm: str) -> nn.Module:
    import torchvision.models  # takes seconds to import, and the paper's CNN needs none of it

    norm_layer = partial(nn.GroupNorm, 32) if norm == "group" else nn.BatchNorm2d
    network = getattr(torchvision.models, name)(weights=None, norm_layer=norm_layer)
    if size <= SMALL_IMAGE:
        network.conv1 = nn.Conv2d(channels, 64, 3, stride=1, padding=1, bias=False)
        network.maxpool = nn.Identity()
    elif channels != 3:
        network.conv1 = nn.Conv2d(channels, 64, 7, stride=2, padding=3, bias=False)
    network.width = network.fc.in_features
    network.fc = nn.Identity()
    return network


def resnet18(channels: int, size: int, norm: str = "batch") -> nn.Module:
    return _resnet("resnet18", channels, size, norm)


def resnet50(channels: int, size: int, norm: str = "batch") -> nn.Module:
    return _resnet("resnet50", channels, size, norm)
