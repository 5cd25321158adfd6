"""MONAI's DenseNet for films: DenseNet-121, and one small enough for two cores."""

from torch import nn


def _densenet(channels: int, norm: str, blocks: tuple[int, ...], growth: int, first: int, pooled: int = 1) -> nn.Module:
    from monai.networks.nets import DenseNet  # takes seconds to import, and the paper's networks need none of it

    norm_spec = ("group", {"num_groups": 8}) if norm == "group" else "batch"
    network = DenseNet(
        spatial_dims=2,
        in_channels=channels,
        out_channels=1,
        init_features=first,
        growth_rate=growth,
        block_config=blocks,
        norm=norm_spec,
    )
    out = network.class_layers.out
    assert isinstance(out, nn.Linear)
    network.width = out.in_features * pooled**2  # type: ignore[assignment]
    network.class_layers.pool = nn.AdaptiveAvgPool2d(pooled)
    network.class_layers.out = nn.Identity()
    return network


def densenet(channels: int, size: int, norm: str = "batch") -> nn.Module:
    """DenseNet-121."""
    return _densenet(channels, norm, blocks=(6, 12, 24, 16), growth=32, first=64)


def densenet_small(channels: int, size: int, norm: str = "batch") -> nn.Module:
    """Three blocks of two layers; all widths divide by the 8 groups.

    It pools to 3 x 3 zones, not to one: the position of a shadow in the chest is half of its meaning, and a network
    this small cannot learn to encode the position in its features.
    """
    return _densenet(channels, norm, blocks=(2, 2, 2), growth=16, first=32, pooled=3)
