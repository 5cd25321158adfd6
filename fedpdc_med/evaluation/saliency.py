"""Grad-CAM: where a model looked on a film, which is not why it decided."""

import copy
from collections.abc import Callable

import numpy as np
import torch
from monai.visualize import GradCAM
from torch import nn

from fedpdc_med.common.errors import UserError


class _LogitsOnly(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, films: torch.Tensor) -> torch.Tensor:
        return self.model(films)[1]


def grad_cam(model: nn.Module, films: torch.Tensor, classes: list[int] | None = None) -> np.ndarray:
    """A map from 0 to 1 of the size of each film (N, H, W), for the given class of each film or the predicted one.

    `films` are the model's input (N, channels, H, W); the model returns (projection, logits) and is not changed.
    A map of zeros means that nothing on the film supports the class.
    """
    # MONAI leaves hooks on the model that it is given, and a page calls this repeatedly on one loaded model.
    wrapped = _LogitsOnly(copy.deepcopy(model)).eval().requires_grad_(True)
    for module in wrapped.modules():
        if getattr(module, "inplace", False):
            # An in-place ReLU behind the hooked layer breaks the backward hook.
            module.inplace = False  # type: ignore[assignment]
    films = films.detach().clone().requires_grad_(True)  # otherwise torch warns for every film
    layer = target_layer(wrapped, films[:1])
    called = _called(wrapped, films) if classes is None else np.asarray(classes)
    # MONAI's own scaling inverts the map; ours is below.
    cam = GradCAM(nn_module=wrapped, target_layers=layer, postprocessing=lambda x: x)
    maps = np.zeros((len(films), *films.shape[2:]), dtype=np.float32)
    # One class at a time: if films have different classes, MONAI mixes the classes of the whole batch.
    for index in np.unique(called):
        rows = np.flatnonzero(called == index)
        maps[rows] = cam(x=films[rows], class_idx=int(index)).detach().cpu().numpy()[:, 0]
    highest = maps.max(axis=(1, 2), keepdims=True)
    return np.divide(maps, highest, out=np.zeros_like(maps), where=highest > 0)


def target_layer(model: nn.Module, film: torch.Tensor) -> str:
    """The name of the last layer whose output is still an image: the end of a ResNet, the last ReLU of a DenseNet.

    This is not simply the last convolution, which in a DenseNet adds a few of a thousand channels. A layer that runs
    twice is skipped, because MONAI would match the output of one pass with the gradient of the other.
    """
    seen: list[str] = []

    def note(name: str) -> Callable[[nn.Module, object, object], None]:
        def hook(_module: nn.Module, _inputs: object, output: object) -> None:
            if isinstance(output, torch.Tensor) and output.ndim == 4 and min(output.shape[2:]) > 1:
                seen.append(name)

        return hook

    pooling = nn.modules.pooling.__name__  # only makes the map coarser
    layers = [(name, module) for name, module in model.named_modules() if type(module).__module__ != pooling]
    hooks = [module.register_forward_hook(note(name)) for name, module in layers]
    with torch.no_grad():
        model(film)
    for hook in hooks:
        hook.remove()
    once = [name for name in seen if seen.count(name) == 1]
    if not once:
        raise UserError("no layer of this model has an image as its output, so no Grad-CAM map can be made")
    return once[-1]


def _called(model: nn.Module, films: torch.Tensor) -> np.ndarray:
    with torch.no_grad():
        return model(films).argmax(dim=1).cpu().numpy()
