"""The paper's networks, and MONAI's for films; each returns (projection, logits)."""

import torch
from torch import nn

from fedpdc_med.common.errors import UserError
from fedpdc_med.models.cnn import PaperCNN
from fedpdc_med.models.densenet import densenet, densenet_small
from fedpdc_med.models.head import WithHead
from fedpdc_med.models.resnet import resnet18, resnet50
from fedpdc_med.runs.plan import Network

ENCODERS = {
    "cnn": PaperCNN,
    "resnet18": resnet18,
    "resnet50": resnet50,
    "densenet-small": densenet_small,
    "densenet121": densenet,
}


def build_model(network: Network, seed: int) -> nn.Module:
    """The network with random weights; the same seed gives bit-identical weights, without global random state."""
    if network.name not in ENCODERS:
        raise UserError(f"there is no model {network.name!r}; choose one of {', '.join(ENCODERS)}")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return WithHead(ENCODERS[network.name](network.channels, network.size, network.norm), network.classes)
