"""What both ends of a job must agree on: a job carries this and nothing else."""

from pydantic import BaseModel, ConfigDict, Field

from fedpdc_med.common.errors import UserError
from fedpdc_med.federation.data import ModelSpec
from fedpdc_med.methods import Method, make_method


class Plan(BaseModel):
    """The run as a hospital needs to know it; numbers and names, no code and no path."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    run: str = Field(pattern=r"^[0-9a-f]{16}$")  # drawn anew for every run: a site's kept state never serves another
    method: dict[str, str | float | int | bool]
    model: str
    norm: str
    size: int = Field(ge=8, le=4096)
    prepared: str = Field(pattern=r"^--size \d{1,4} --fit (pad|crop)( --equalise)?$")  # as the reference's films were
    classes: tuple[str, ...] = Field(min_length=2)
    seed: int

    def make_method(self) -> Method:
        return checked(make_method(**self.method))  # type: ignore[arg-type]

    def spec(self) -> ModelSpec:
        return ModelSpec(self.model, 1, self.size, len(self.classes), self.norm)


def checked(method: Method) -> Method:
    """Only methods in which sites share a model make sense between hospitals."""
    if not method.shares or method.arrangement != "sites":
        raise UserError(f"method {method.name!r} shares no model between sites; run it with: fedpdc simulate")
    return method
