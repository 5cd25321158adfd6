"""What a run has agreed on, the same at every party: numbers and names, no code and no path."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

PROTOCOL = 1  # raised when sites and a coordinator of before and after can no longer work together


class _Value(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Preparation(_Value):
    """How uint8 images become network input: normalisation (of 255) always, augmentation in training."""

    mean: tuple[float, ...]
    std: tuple[float, ...]
    pad: int = 0  # pixels added on each side before a random crop back to size
    pad_mode: Literal["reflect", "zero"] = "reflect"
    flip: bool = False  # left-right; never for chest films, where it would move the heart
    rotate: float = 0.0  # degrees, up to
    shift: float = 0.0  # share of the width, up to
    zoom: float = 0.0  # share, up to
    contrast: float = 0.0  # share by which intensities are stretched around their mean, up to
    per_image: bool = False  # every image to mean 0 and spread 1 in place of `mean` and `std`: exposure says nothing


class FilmProcessing(_Value):
    """How films were brought to working size; `str` gives the options of the command that does so."""

    size: int = Field(ge=8, le=4096)
    fit: Literal["pad", "crop"] = "pad"
    equalise: bool = False

    def __str__(self) -> str:
        return f"--size {self.size} --fit {self.fit}" + " --equalise" * self.equalise


class Network(_Value):
    name: str
    channels: int = Field(ge=1, le=4)
    size: int = Field(ge=1, le=4096)
    classes: int = Field(ge=2, le=10_000)
    norm: Literal["batch", "group"] = "batch"


class MethodConfig(_Value):
    """A method's name and all its settings, those that were left at their defaults too."""

    name: str
    settings: dict[str, str | float | int | bool] = {}


class LocalSettings(_Value):
    """How a site trains; the defaults are the paper's."""

    epochs: int = Field(default=10, ge=1)
    batch_size: int = Field(default=64, ge=1)
    learning_rate: float = Field(default=0.01, gt=0)
    momentum: float = Field(default=0.9, ge=0, lt=1)
    weight_decay: float = Field(default=1e-5, ge=0)


class Privacy(_Value):
    """The Gaussian mechanism on a site's whole update, so that it hides any film, and any set of films, of the site.

    It covers the model. The number of films and the loss, which a site returns beside it, are exact.
    """

    clip: float = Field(gt=0)  # the most that one round may move the model, as a length over all of its numbers
    noise: float = Field(gt=0)  # the spread of the noise on every number, in clips
    delta: float = Field(default=1e-5, gt=0, lt=1)
    limit: float | None = Field(default=None, gt=0)  # of epsilon: an update that would lead above it is not sent


class Plan(_Value):
    protocol: int = PROTOCOL
    package: str  # the version of fedpdc_med that made it
    # Drawn anew for every run of a federation, so that what a site keeps never serves another; elsewhere empty.
    run: str = Field(default="", pattern=r"^([0-9a-f]{16})?$")
    method: MethodConfig
    network: Network
    classes: tuple[str, ...] = Field(min_length=2)
    preparation: Preparation
    film_processing: FilmProcessing | None = None  # None: a benchmark's images, which are no films
    rounds: int = Field(ge=1)
    tau: float = Field(default=1.0, gt=0, le=1)  # share of the sites sampled in a round
    seed: int = 0
