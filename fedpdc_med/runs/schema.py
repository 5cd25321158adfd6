"""What a run says of itself: its configuration, its rounds, and what it remembers between them."""

import json
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator


class _Method(BaseModel):
    name: str


class _Site(BaseModel):
    title: str = ""
    takes_part: bool = True
    films: int = 0
    patients: int = 0
    training_films: dict[str, int] = {}


class _Data(BaseModel):
    classes: list[str] | None = None
    name: str = ""


class _Plan(BaseModel):
    rounds: int = Field(default=0, ge=0)
    seed: int = 0
    model: str = ""


class _Experiment(_Plan):
    title: str = ""


class _Reference(BaseModel):
    provenance: str = ""
    films: int = 0
    splits: dict[str, dict[str, int]] = {}


class _Config(BaseModel):
    """The fields that pages read; others are allowed."""

    kind: str
    method: _Method
    classes: list[str] | None = None
    data: _Data = _Data()
    simulation: _Plan = _Plan()
    experiment: _Experiment = _Experiment()
    sites: dict[str, _Site] = {}
    reference: _Reference = _Reference()

    @model_validator(mode="after")
    def _has_classes(self) -> "_Config":
        classes = self.classes or self.data.classes or []
        if len(classes) < 2 or len(set(classes)) < len(classes):
            raise ValueError("it does not name two classes or more, each once")
        return self


FileName = Annotated[str, Field(pattern=r"^[^/]+\.safetensors$")]


class Progress(BaseModel):
    """What a run must remember between rounds, beside the global model."""

    model_config = ConfigDict(strict=True, extra="forbid")

    round: int = 0
    scores: dict[str, float] = {}  # p_i of the round before, by site
    kept: dict[str, FileName] = {}  # what a site keeps for its next round, in site_models/
    server_state: FileName | None = None  # the memory of the method's server step, a file there too


class SiteRound(BaseModel):
    """What a round had from one site: an update that was used, or why there was none."""

    model_config = ConfigDict(strict=True, extra="forbid")

    status: Literal["ok", "absent", "failed", "rejected"]
    reason: str = ""
    films: int | None = None
    loss: float | None = None
    score: float | None = None  # p_i: accuracy on the weighting films
    recall: dict[str, float | None] | None = None
    weight: float | None = None
    dissimilarity: float | None = None  # definition 1
    epsilon: float | None = None  # what the site's updates up to this round give away, if it adds noise to them


class Round(BaseModel):
    """A line of rounds.jsonl; accuracy and recall are of the reported films."""

    model_config = ConfigDict(strict=True, extra="forbid")

    round: int
    seconds: float
    bytes: int | None = None
    accuracy: float
    recall: dict[str, float | None]
    worst_recall: float | None = None
    score: float | None = None  # P: choices between settings look at this one, never at the accuracy
    sites: dict[str, SiteRound]
    note: str | None = None

    def line(self) -> str:
        return json.dumps(self.model_dump(exclude_unset=True))

    def in_short(self) -> str:
        """For a line of progress."""
        left_out = [name for name, site in self.sites.items() if site.status in ("failed", "rejected")]
        trouble = f", left out: {', '.join(left_out)}" if left_out else ""
        return f"accuracy {self.accuracy:.3f}, {self.seconds:.1f} s a round{trouble}"


def problem_with_config(config: dict[str, Any]) -> str | None:
    return _problem(_Config, config)


def _problem(kind: type[BaseModel], value: Any) -> str | None:
    try:
        kind.model_validate(value)
    except ValidationError as error:
        return sentence(error)
    return None


def sentence(error: ValidationError) -> str:
    """The first thing wrong, as 'field: what'; the value itself is not repeated."""
    first = error.errors(include_input=False, include_url=False)[0]
    where = ".".join(map(str, first["loc"]))
    what = first["msg"].removeprefix("Value error, ")
    what = what[0].lower() + what[1:]
    return f"{where}: {what}" if where else what
