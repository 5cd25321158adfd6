"""Options that several commands share, and how their values are checked."""

import importlib.util
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedpdc_med.common.errors import UserError
from fedpdc_med.imaging.classes import Fit

if TYPE_CHECKING:
    from fedpdc_med.runs.plan import Privacy

RECOMMENDED = "fedpdc-ce"  # docs/recommended.md says why
METHOD_HELP = (
    "Recommended: fedpdc-ce. From the paper: fedpdc, fedavg, fedprox, moon, solo. Other uses of the public images: "
    "abavg, data-sharing, server-finetune, learned-weights. Without public images: scaffold, fedavgm, "
    "median, trimmed-mean. No federation: reference-only, pooled."
)

Method = Annotated[str, typer.Option(help=METHOD_HELP)]
MethodSettings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="A setting of the method, for example strength=1 or weighting=sharpened. May be repeated.",
    ),
]
Rounds = Annotated[int, typer.Option(min=1, help="Rounds of training.")]
Tau = Annotated[float, typer.Option(help="Fraction of sites sampled per round.")]
Model = Annotated[str, typer.Option(help="densenet-small, densenet121, resnet18, resnet50 or cnn.")]
Norm = Annotated[str, typer.Option(help="Normalisation layers: batch or group.")]
Clip = Annotated[
    float | None,
    typer.Option(help="Differential privacy at every site: clip each update to this norm. Needs --noise."),
]
Noise = Annotated[float | None, typer.Option(help="Standard deviation of the added noise, as a multiple of --clip.")]
Workers = Annotated[
    int | None,
    typer.Option(min=1, help="Number of worker processes; does not affect the result. Default: all available cores."),
]
Data = Annotated[
    Path | None,
    typer.Option(
        help="Folder that contains the images, in their official layout.", envvar="FEDPDC_DATA", show_envvar=True
    ),
]
Collection = Annotated[
    str | None,
    typer.Option(
        help="Layout of a public dataset: covid-chestxray-dataset, darkcovidnet, covid-19-radiography-database, "
        "medmnist or folder-per-class. Default: detected from the folder."
    ),
]
Squared = Annotated[
    Fit, typer.Option(help="For films that are not square: pad keeps the whole film; crop keeps the central square.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]


def parse_set(pairs: Sequence[str], *takers: tuple[str, Mapping[str, Any]]) -> tuple[dict[str, str], ...]:
    """KEY=VALUE pairs, each assigned to the first taker (a name with its settings) that has the key."""
    found: tuple[dict[str, str], ...] = tuple({} for _ in takers)
    for pair in pairs:
        key, separator, value = pair.partition("=")
        if not separator or not key or not value:
            raise UserError(f"--set {pair!r}: write it as KEY=VALUE, for example --set mu=0.1")
        taken = next((mine for mine, (_, settings) in zip(found, takers, strict=True) if key in settings), None)
        if taken is None:
            known = "; ".join(f"{name}: {', '.join(settings) or 'none'}" for name, settings in takers)
            raise UserError(f"--set {key}: unknown setting; known settings of {known}")
        taken[key] = value
    return found


def method_settings(pairs: Sequence[str] | None, method: str) -> dict[str, str]:
    from fedpdc_med.methods import method_class

    return parse_set(pairs or [], (f"the method {method!r}", method_class(method).model_fields))[0]


def refuse_if_different(
    folder: Path,
    there: Mapping[str, Any],
    wanted: Mapping[str, Any],
    remedy: str = "choose another --out, or use --overwrite instead of --resume",
) -> None:
    """A run is never silently continued with settings other than the command's."""
    for key in sorted(wanted):
        if there.get(key) != wanted[key]:
            raise UserError(f"{folder} contains a run with {key} = {there.get(key)!r}, not {wanted[key]!r}; {remedy}")


def checked_tau(tau: float) -> float:
    if not 0 < tau <= 1:
        raise UserError(f"--tau {tau}: the fraction of sites sampled per round must be above 0 and at most 1")
    return tau


def checked_privacy(clip: float | None, noise: float | None) -> "Privacy | None":
    from fedpdc_med.runs.plan import Privacy

    if clip is None and noise is None:
        return None
    if clip is None or noise is None or clip <= 0 or noise <= 0:
        raise UserError("--clip and --noise are used together, and both must be above 0; try --clip 1 --noise 0.01")
    return Privacy(clip=clip, noise=noise)


def checked_norm(norm: str) -> Any:
    if norm not in ("group", "batch"):
        raise UserError(f"--norm {norm}: choose group or batch")
    return norm


def checked_run_name(name: str, option: str) -> str:
    """A run's name is sent in jobs and becomes a folder name at the coordinator."""
    from fedpdc_med.common.paths import checked_name

    try:
        return checked_name(name)
    except UserError:
        raise UserError(
            f"{option}: a run's name may contain only lower-case letters, digits, - and _ (at most 64 characters), "
            "for example first-run"
        ) from None


def listed(text: str) -> tuple[str, ...]:
    """The parts of a comma-separated value."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def needs_flare() -> None:
    if importlib.util.find_spec("nvflare") is None:
        raise UserError(
            "NVIDIA FLARE is not installed; in the checkout of fedpdc_med, install it with: "
            'pip install -e ".[federation]" -c constraints.txt'
        )
