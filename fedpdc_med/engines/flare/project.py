"""project.toml: the parties of a federation; kit.toml: the owner of a kit."""

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator

from fedpdc_med.common.errors import UserError
from fedpdc_med.common.paths import hospital_name
from fedpdc_med.imaging.classes import CLASSES

COORDINATOR_KIT = "coordinator"
SERVER = "server"  # what FLARE itself calls the coordinator
AUTHORITY = "authority"  # the consortium's own certificate authority: anyone who has this folder can make kits

LAUNCH = "fedpdc_med.engines.flare.launch"  # by name, because importing FLARE takes a second
Role = Literal["coordinator", "hospital", "administrator"]


class Party(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    title: str = ""
    organisation: str = Field(default="consortium", pattern=r"^[A-Za-z0-9_]+$")


class HospitalParty(Party):
    name: str

    @field_validator("name")
    @classmethod
    def _site_name(cls, name: str) -> str:
        try:
            return hospital_name(name)
        except UserError as error:
            raise ValueError(str(error)) from None


class Administrator(Party):
    """`lead` starts and stops runs, `member` has read access only."""

    name: str = Field(pattern=r"^[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+\.[A-Za-z]{2,}$")  # FLARE requires an e-mail address
    role: Literal["lead", "member"] = "lead"


class Project(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$")
    coordinator: str  # the host name by which hospitals reach it, which is in the coordinator's certificate
    port: int = Field(default=8002, ge=1, le=65535)
    valid_days: int = Field(default=360, ge=1)
    classes: tuple[str, ...] = CLASSES
    hospital: list[HospitalParty] = Field(min_length=1)
    administrator: list[Administrator] = Field(min_length=1)

    @field_validator("coordinator")
    @classmethod
    def _host_name(cls, name: str) -> str:
        if not re.fullmatch(r"([A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?\.)*[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?", name):
            raise ValueError("write the coordinator's host name, for example coordinator.example.org")
        return name

    @field_validator("hospital")
    @classmethod
    def _free(cls, hospitals: list[HospitalParty], info: ValidationInfo) -> list[HospitalParty]:
        """Names become folders next to those of the coordinator and the authority."""
        taken = {COORDINATOR_KIT, SERVER, AUTHORITY, info.data.get("coordinator")}
        for hospital in hospitals:
            if hospital.name in taken:
                raise ValueError(f"{hospital.name!r} cannot be the name of a hospital; choose another")
        return hospitals

    @field_validator("hospital", "administrator")
    @classmethod
    def _different(cls, parties: list[Any]) -> list[Any]:
        names = [party.name for party in parties]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"{twice[0]!r} appears twice; every party needs a unique name")
        return parties

    @property
    def sites(self) -> dict[str, str]:
        """Name and title of every hospital."""
        return {hospital.name: hospital.title for hospital in self.hospital}

    @property
    def lead(self) -> str:
        """The first administrator who may start a run."""
        found = [person.name for person in self.administrator if person.role == "lead"]
        if not found:
            raise UserError("project.toml names no administrator with role 'lead', who could start a run; add one")
        return found[0]


def read_project(file: Path) -> Project:
    if not file.is_file():
        raise UserError(f"{file}: there is no such project file; see docs/deploy.md for an example")
    try:
        return Project(**tomllib.loads(file.read_text(encoding="utf-8")))
    except UnicodeDecodeError:
        raise UserError(f"{file.name} is not UTF-8 text; save it as UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{file.name} is not valid TOML: {error}") from None
    except ValidationError as error:
        mistake = error.errors()[0]
        where = ".".join(str(part) for part in mistake["loc"])
        raise UserError(f"{file.name}, {where}: {mistake['msg'].removeprefix('Value error, ')}") from None


@dataclass(frozen=True)
class Kit:
    """The owner of a kit, written into it as kit.toml."""

    name: str
    role: Role
    organisation: str


def read_kit(folder: Path) -> Kit:
    try:
        return Kit(**tomllib.loads((folder / "kit.toml").read_text(encoding="utf-8")))
    except (OSError, tomllib.TOMLDecodeError, TypeError):
        raise UserError(f"{folder} is not a startup kit (kit.toml is missing or corrupt)") from None
