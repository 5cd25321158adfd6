"""What a run records: its configuration by kind, its rounds, and its progress between them."""

import json
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from fedpdc_med.runs.plan import LocalSettings, Plan, Privacy

FORMAT = 1  # of a run directory; increased when older ones can no longer be read


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Experiment(_Part):
    """Everything that determines a benchmark run, except the method; a file of the catalogue with a preset applied."""

    name: str
    title: str = ""
    preset: str
    data: Literal["digits", "cifar10", "cifar100", "tiny-imagenet"]
    model: str
    norm: Literal["batch", "group"] = "batch"
    partition: str = "dirichlet"
    beta: float = Field(default=0.1, gt=0)
    sites: int = Field(default=10, ge=1)
    public_per_class: int = Field(ge=0)  # held out of the training images before they are partitioned
    public_split: Literal["halves", "shared"] = "halves"  # for a method that trains on public images
    rounds: int = Field(ge=1)
    epochs: int = Field(ge=1)
    tau: float = Field(default=1.0, gt=0, le=1)  # fraction of the sites sampled per round
    batch_size: int = Field(default=64, ge=1)
    learning_rate: float = Field(default=0.01, gt=0)
    momentum: float = Field(default=0.9, ge=0, lt=1)
    weight_decay: float = Field(default=1e-5, ge=0)
    images: int | None = Field(default=None, ge=1)  # train on only this many images; not the paper's setting
    seed: int = 0
    changed: tuple[str, ...] = ()  # keys changed from the experiment's and its preset's values

    @property
    def local(self) -> LocalSettings:
        return LocalSettings(**{name: getattr(self, name) for name in LocalSettings.model_fields})

    @property
    def changes(self) -> dict[str, Any]:
        """The settings changed from the experiment's and its preset's values."""
        return {key: getattr(self, key) for key in self.changed}


class SiteSummary(_Part):
    """What is known about a site; in a federation a hospital reports its film counts only, in its answers."""

    title: str = ""
    takes_part: bool = True
    films: int = 0
    patients: int = 0
    films_of_other_classes: int = 0
    training_films: dict[str, int] = {}
    settings: LocalSettings | None = None
    privacy: Privacy | None = None


class ReferenceFacts(_Part):
    """What the public reference set is and contains."""

    version: str
    provenance: str
    licence: str
    classes: tuple[str, ...]
    films: int
    patients: int
    splits: dict[str, dict[str, int]]


class ImageSource(_Part):
    """A benchmark's images; the folder as seen from the run, so that no path of the machine is recorded."""

    name: str
    fingerprint: str
    folder: str | None = None


class StoreFingerprints(_Part):
    """The film stores of a run by site, and `reference`; folders as seen from the run."""

    fingerprints: dict[str, str]
    sites_folder: str | None = None
    reference_folder: str | None = None


class _Run(_Part):
    format: Literal[1] = 1
    made_with: dict[str, str]  # fedpdc_med, python, torch, ...
    git_commit: str | None = None
    plan: Plan
    sites: dict[str, SiteSummary] = {}  # empty for a benchmark

    @model_validator(mode="after")
    def _has_classes(self) -> "_Run":
        if len(set(self.plan.classes)) < len(self.plan.classes):
            raise ValueError("it names a class twice")
        return self


class BenchmarkRun(_Run):
    kind: Literal["benchmark"] = "benchmark"
    experiment: Experiment
    data: ImageSource


class SimulationRun(_Run):
    kind: Literal["simulation"] = "simulation"
    privacy: Privacy | None = None  # for every site, instead of the settings in its site file
    reference: ReferenceFacts
    data: StoreFingerprints


class FederationRun(_Run):
    kind: Literal["federation"] = "federation"
    engine: str = "nvflare"
    reference: ReferenceFacts
    data: StoreFingerprints


FilmRun = SimulationRun | FederationRun  # of films, and with a public reference set
RunConfig = BenchmarkRun | SimulationRun | FederationRun
_CONFIG: TypeAdapter[RunConfig] = TypeAdapter(Annotated[RunConfig, Field(discriminator="kind")])


def config_from(table: dict[str, Any]) -> RunConfig:
    """The configuration in a run's config.toml; raises a ValueError of a few words."""
    if table.get("format") != FORMAT:
        made_with = table.get("made_with")
        version = made_with.get("fedpdc_med") if isinstance(made_with, dict) else None
        by = f", written by fedpdc_med {version}," if isinstance(version, str) else ""
        has = f"has format {table['format']!r}" if "format" in table else "names no format"
        raise ValueError(f"it {has}{by} and this version reads format {FORMAT} only; run it again")
    try:
        return _CONFIG.validate_python(table)
    except ValidationError as error:
        raise ValueError(sentence(error)) from None


FileName = Annotated[str, Field(pattern=r"^[^/]+\.safetensors$")]


class Progress(BaseModel):
    """What a run must remember between rounds, in addition to the global model."""

    model_config = ConfigDict(strict=True, extra="forbid")

    round: int = 0
    scores: dict[str, float] = {}  # p_i of the previous round, by site
    kept: dict[str, FileName] = {}  # what a site keeps for its next round, in site_models/
    server_state: FileName | None = None  # the memory of the method's server step, a file there too


class SiteRound(BaseModel):
    """What a round received from one site: an update that was used, or why there was none."""

    model_config = ConfigDict(strict=True, extra="forbid")

    status: Literal["ok", "absent", "failed", "rejected"]
    reason: str = ""
    films: int | None = None
    loss: float | None = None
    score: float | None = None  # p_i: accuracy on the weighting films
    recall: dict[str, float | None] | None = None
    weight: float | None = None
    dissimilarity: float | None = None  # definition 1
    epsilon: float | None = None  # privacy spent by the site's updates up to this round, if it adds noise to them


class Round(BaseModel):
    """A line of rounds.jsonl; accuracy and recall are of the reported films."""

    model_config = ConfigDict(strict=True, extra="forbid")

    round: int
    seconds: float
    bytes: int | None = None
    accuracy: float
    recall: dict[str, float | None]
    worst_recall: float | None = None
    score: float | None = None  # P: settings are chosen by this number, never by the accuracy
    sites: dict[str, SiteRound]
    note: str | None = None

    def line(self) -> str:
        return json.dumps(self.model_dump(exclude_unset=True))

    def in_short(self) -> str:
        """The text for a progress line."""
        left_out = [name for name, site in self.sites.items() if site.status in ("failed", "rejected")]
        trouble = f", not used: {', '.join(left_out)}" if left_out else ""
        return f"accuracy {self.accuracy:.3f}, {self.seconds:.1f} s/round{trouble}"


def sentence(error: ValidationError) -> str:
    """The first thing wrong, as 'field: what'; the value itself is not repeated."""
    first = error.errors(include_input=False, include_url=False)[0]
    where = ".".join(str(part) for part in first["loc"] if part not in ("benchmark", "simulation", "federation"))
    what = first["msg"].removeprefix("Value error, ")
    what = what[0].lower() + what[1:]
    return f"{where}: {what}" if where else what
