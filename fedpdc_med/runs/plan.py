"""The plan of a run, the same at every party: numbers and names, no code and no paths."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

PROTOCOL = 1  # increased when sites and coordinators of the old and new version can no longer work together


class _Value(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Preparation(_Value):
    """How uint8 images become network input: normalisation (of 255) always, augmentation in training."""

    mean: tuple[float, ...]
    std: tuple[float, ...]
    pad: int = 0  # pixels added on each side before a random crop to the original size
    pad_mode: Literal["reflect", "zero"] = "reflect"
    flip: bool = False  # left-right; never for chest films, where it would move the heart
    rotate: float = 0.0  # degrees, maximum
    shift: float = 0.0  # fraction of the width, maximum
    zoom: float = 0.0  # fraction, maximum
    contrast: float = 0.0  # fraction by which intensities are stretched around their mean, maximum
    per_image: bool = False  # every image to mean 0 and SD 1 instead of `mean` and `std`: hides the exposure


class FilmProcessing(_Value):
    """How films were resized; `str` gives the options of the command that does it."""

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
    """A method's name and all its settings, including those left at their defaults."""

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
    """The Gaussian mechanism on a site's whole update, which therefore hides any film or set of films of the site.

    It covers the model. The number of films and the loss, which a site also returns, are exact.
    """

    clip: float = Field(gt=0)  # the maximum change of the model in one round, as the norm over all of its numbers
    noise: float = Field(gt=0)  # the standard deviation of the noise on every number, as a multiple of `clip`
    delta: float = Field(default=1e-5, gt=0, lt=1)
    limit: float | None = Field(default=None, gt=0)  # of epsilon: an update that would exceed it is not sent


class Plan(_Value):
    protocol: int = PROTOCOL
    package: str  # the version of fedpdc_med that made it
    # Random for every run of a federation, so that what a site keeps is never used for another run; elsewhere empty.
    run: str = Field(default="", pattern=r"^([0-9a-f]{16})?$")
    method: MethodConfig
    network: Network
    classes: tuple[str, ...] = Field(min_length=2)
    preparation: Preparation
    film_processing: FilmProcessing | None = None  # None: a benchmark's images, which are not films
    rounds: int = Field(ge=1)
    tau: float = Field(default=1.0, gt=0, le=1)  # fraction of the sites sampled per round
    seed: int = 0
