"""Where a run's model looked: the model from its file, the Grad-CAM map, and the film next to its map."""

import io
from typing import Any

import numpy as np
import torch
from matplotlib import colormaps
from PIL import Image
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import nn

from fedpdc_med.common.errors import UserError
from fedpdc_med.evaluation.saliency import grad_cam
from fedpdc_med.models import build_model
from fedpdc_med.models.inference import normalise
from fedpdc_med.runs.directory import Run
from fedpdc_med.runs.plan import Preparation

SIDE, GAP = 256, 6  # width of a picture on the page, and the gap between two, in pixels
LABEL = "Where the model looked, not why."


def load_model(view: Run) -> nn.Module:
    """The run's final model; safetensors holds numbers only, so a foreign file can run no code."""
    file = view.folder / "model.safetensors"
    if not file.is_file():
        raise UserError("This run has no global model, so there is no Grad-CAM map.")
    try:
        model = build_model(view.plan.network, 0)
        model.load_state_dict(load_file(file))
    except (UserError, ValueError, RuntimeError, SafetensorError, OSError):
        raise UserError("model.safetensors does not fit this run, so there is no Grad-CAM map.") from None
    return model.eval()


def maps(model: nn.Module, preparation: Preparation, films: np.ndarray, called: list[int]) -> np.ndarray:
    """Grad-CAM of the predicted class for films (N, channels, H, W), from 0 to 1."""
    return grad_cam(model, normalise(torch.from_numpy(np.ascontiguousarray(films)), preparation), called)


def film_picture(film: np.ndarray) -> Image.Image:
    pixels: Any = film[0] if film.shape[0] == 1 else film.transpose(1, 2, 0)
    return Image.fromarray(pixels).convert("RGB").resize((SIDE, SIDE), Image.Resampling.BICUBIC)


def map_picture(film: np.ndarray, heat: np.ndarray) -> Image.Image:
    """The film in grey under the map; the brighter, the more it spoke for the class. Readable without colour."""
    grey = np.asarray(film_picture(film).convert("L"), dtype=float)[..., None] / 255
    smooth = Image.fromarray(np.uint8(heat * 255)).resize((SIDE, SIDE), Image.Resampling.BICUBIC)
    strength = np.asarray(smooth, dtype=float) / 255
    colour = colormaps["inferno"](0.25 + 0.75 * strength)[..., :3]
    cover = (0.65 * strength)[..., None]
    return Image.fromarray(np.uint8(255 * (0.8 * grey * (1 - cover) + colour * cover)))


def side_by_side(film: np.ndarray, heat: np.ndarray | None) -> bytes:
    """A PNG: the film on the left, the map on the right where there is one."""
    pictures = [film_picture(film)] + ([map_picture(film, heat)] if heat is not None else [])
    sheet = Image.new("RGB", (2 * SIDE + GAP, SIDE), "white")
    for place, picture in enumerate(pictures):
        sheet.paste(picture, (place * (SIDE + GAP), 0))
    file = io.BytesIO()
    sheet.save(file, "PNG")
    return file.getvalue()
