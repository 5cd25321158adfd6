"""An experiment: a short TOML file with the paper's setting, presets and published numbers."""

import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from fedpdc_med.common.errors import UserError
from fedpdc_med.common.files import parsed
from fedpdc_med.runs.plan import Preparation
from fedpdc_med.runs.schema import Experiment

CATALOGUE = files("fedpdc_med.benchmarks") / "catalogue"
PRESETS = ("quick", "paper")
NOT_SETTINGS = ("name", "title", "preset", "seed", "changed")  # not available to `--set`

# How the code of MOON, whose settings the paper uses, prepares each dataset's images.
PREPARATIONS = {
    "digits": Preparation(mean=(62.5,), std=(77.0,)),
    "cifar10": Preparation(mean=(125.3, 123.0, 113.9), std=(63.0, 62.1, 66.7), pad=4, pad_mode="reflect", flip=True),
    "cifar100": Preparation(
        mean=(129.3, 124.1, 112.4), std=(68.2, 65.4, 70.4), pad=4, pad_mode="zero", flip=True, rotate=15.0
    ),
    "tiny-imagenet": Preparation(mean=(127.5,) * 3, std=(127.5,) * 3),
}


def names() -> list[str]:
    return sorted(entry.name.removesuffix(".toml") for entry in CATALOGUE.iterdir() if entry.name.endswith(".toml"))


def read(name: str) -> dict[str, Any]:
    """The TOML of an experiment of the catalogue, or of the file at that path.

    Another experiment must not use a name of the catalogue: the paper's numbers would be printed next to its results.
    """
    entry = CATALOGUE / f"{name}.toml"
    path = Path(name)
    if path.suffix == ".toml":
        if not path.is_file():
            raise UserError(f"there is no experiment file {name}")
        entry = path
    elif not entry.is_file():
        raise UserError(f"there is no experiment {name!r}; choose one of {', '.join(names())}, or name a .toml file")
    try:
        table = {
            "name": path.stem if path.suffix == ".toml" else name,
            **parsed(tomllib.loads, entry.read_text(encoding="utf-8")),
        }
    except ValueError as error:
        raise UserError(f"{name}: not valid TOML: {error}") from None
    if path.suffix == ".toml" and table["name"] in names() and table != read(table["name"]):
        remedy = "rename the file" if table["name"] == path.stem else "change its key 'name'"
        raise UserError(
            f"{name} has the same name as the bundled experiment {table['name']!r} but differs from it; {remedy}"
        )
    return table


def published(name: str) -> dict[str, float]:
    """The paper's accuracies by method, in per cent; empty for an experiment that is not in the paper."""
    return read(name).get("paper", {}) if name in names() else {}


def published_rounds(name: str) -> dict[str, int]:
    """The rounds that the paper's methods took to reach FedAvg's final accuracy."""
    return read(name).get("paper_rounds", {}) if name in names() else {}


def make_experiment(name: str, preset: str, method: str, **overrides: Any) -> Experiment:
    """The experiment with its preset applied, then the preset's own values for this method, then the overrides."""
    table = read(name)
    table.pop("paper", None)
    table.pop("paper_rounds", None)
    presets = table.pop("preset", {})
    where = f"experiment {table['name']!r}"
    if not isinstance(presets, dict) or not isinstance(presets.get(preset, {}), dict):
        raise UserError(f"{where}: write a preset as a table, [preset.{preset}], with its keys below it")
    if preset not in presets:
        raise UserError(f"{where} has no preset {preset!r}; it has: {', '.join(presets) or 'none'}")
    chosen = dict(presets[preset])
    of_methods = {key: chosen.pop(key) for key, value in list(chosen.items()) if isinstance(value, dict)}
    settings = {**table, **chosen, **of_methods.get(method, {}), "preset": preset}
    plain, made = (validated({**settings, **more}, where) for more in ({}, overrides))
    return made.model_copy(update={"changed": differing(made, plain)})


def differing(one: Experiment, other: Experiment) -> tuple[str, ...]:
    keys = [key for key in Experiment.model_fields if key not in ("seed", "changed")]
    return tuple(key for key in keys if getattr(one, key) != getattr(other, key))


def validated(settings: dict[str, Any], where: str) -> Experiment:
    unknown = sorted(set(settings) - set(Experiment.model_fields))
    if unknown:
        known = ", ".join(sorted(Experiment.model_fields))
        raise UserError(f"{where}: unknown key {unknown[0]!r}; known keys: {known}")
    try:
        return Experiment(**settings)
    except ValidationError as error:
        first = error.errors()[0]
        seen = "" if first["type"] == "missing" else f" = {first['input']!r}"
        raise UserError(f"{where}, key {first['loc'][0]!r}{seen}: {first['msg']}") from None
