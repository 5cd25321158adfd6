"""Is a configuration or a round what fedpdc writes? A run folder may come from anyone, and pages trust its fields."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

Share = float | None


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


class _SiteRound(BaseModel):
    status: str
    reason: str = ""
    films: int = 0
    loss: Share = None
    score: Share = None
    weight: Share = None
    dissimilarity: Share = None
    epsilon: Share = None


class _Round(BaseModel):
    model_config = ConfigDict(strict=True)

    round: int
    recall: dict[str, Share] = {}
    accuracy: Share = None
    sites: dict[str, _SiteRound]


def problem_with_config(config: dict[str, Any]) -> str | None:
    return _problem(_Config, config)


def problem_with_round(record: Any) -> str | None:
    return _problem(_Round, record)


def _problem(kind: type[BaseModel], value: Any) -> str | None:
    """The first thing wrong, as 'field: what'; the value itself is not repeated."""
    try:
        kind.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        what = first["msg"].removeprefix("Value error, ")
        what = what[0].lower() + what[1:]
        return f"{where}: {what}" if where else what
    return None
