"""A site of the federation: a Python file that defines SITE = HospitalSite(...)."""

import runpy
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from fedpdc_med.common.errors import UserError
from fedpdc_med.common.paths import hospital_name
from fedpdc_med.imaging.classes import CLASSES
from fedpdc_med.imaging.phantoms.films import ADULT_MIX
from fedpdc_med.imaging.phantoms.scanners import Scanner
from fedpdc_med.runs.plan import LocalSettings, Privacy


class Phantoms(BaseModel):
    """Synthetic films, for trying things out: how many of each class, with which scanner, of which ages."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    case_mix: dict[str, int]
    scanner: Scanner = Scanner()
    ages: dict[str, float] = dict(ADULT_MIX)

    @field_validator("case_mix")
    @classmethod
    def _known_classes(cls, mix: dict[str, int]) -> dict[str, int]:
        for label, count in mix.items():
            if label not in CLASSES:
                raise ValueError(f"there is no class {label!r}; the classes are {', '.join(CLASSES)}")
            if count < 0:
                raise ValueError(f"{label!r} has {count} films; a count is 0 or more")
        if sum(mix.values()) == 0:
            raise ValueError("every count is 0; a site needs films")
        return mix


class HospitalSite(BaseModel):
    """One site: its films (synthetic, or the name of its film store), and how it trains."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    title: str = ""
    films: Phantoms | str
    settings: LocalSettings = LocalSettings(epochs=2, batch_size=16)
    privacy: Privacy | None = None  # noise on the updates that leave it
    takes_part: bool = Field(default=True)  # False: an external site, which only tests the finished model

    @field_validator("name")
    @classmethod
    def _file_name(cls, name: str) -> str:
        try:
            return hospital_name(name)
        except UserError as error:
            raise ValueError(str(error)) from None


def load_sites(folder: Path) -> list[HospitalSite]:
    """Every site file of a folder, by name; a mistake is an error that names the file and the field."""
    if not folder.is_dir():
        raise UserError(f"--sites {folder}: there is no such folder")
    files = [file for file in sorted(folder.glob("*.py")) if not file.name.startswith("_")]
    if not files:
        raise UserError(f"--sites {folder}: no site file (*.py) in it")
    sites: dict[str, HospitalSite] = {}
    for file in files:
        site = load_site(file)
        if site.name in sites:
            raise UserError(f"{file.name}, field 'name': another site file already has the name {site.name!r}")
        sites[site.name] = site
    return sorted(sites.values(), key=lambda site: site.name)


def load_site(file: Path) -> HospitalSite:
    try:
        found: Any = runpy.run_path(str(file)).get("SITE")
    except ValidationError as error:
        raise UserError(f"{file.name}, {first_mistake(error)}") from None
    except SyntaxError as error:
        raise UserError(f"{file.name}, line {error.lineno}: not valid Python ({error.msg})") from None
    except Exception as error:
        raise UserError(f"{file.name} cannot be loaded: {type(error).__name__}: {error}") from None
    if not isinstance(found, HospitalSite):
        raise UserError(f"{file.name} must define SITE = HospitalSite(...); SITE is {type(found).__name__}")
    return found


def first_mistake(error: ValidationError) -> str:
    """The first mistake found by pydantic, as `field 'x' = value: what is wrong`; for a union, the likelier type."""
    mistakes = error.errors()
    mistake = max(mistakes, key=lambda one: len(one["loc"])) if mistakes[0]["loc"][:1] == ("films",) else mistakes[0]
    field = ".".join(str(part) for part in mistake["loc"] if part not in ("Phantoms", "str")) or error.title
    if mistake["type"] == "extra_forbidden":
        known = [*HospitalSite.model_fields, *Phantoms.model_fields]
        like = get_close_matches(field.split(".")[-1], known, n=1)
        return f"field {field!r}: there is no such field" + (f"; did you mean {like[0]!r}?" if like else "")
    seen = "" if mistake["type"] in ("missing", "value_error") else f" = {mistake['input']!r}"
    return f"field {field!r}{seen}: {mistake['msg'].removeprefix('Value error, ')}"
