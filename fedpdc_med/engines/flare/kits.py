"""A kit on its way to its party: a plain page, a systemd unit, and how to start what is in it."""

import json
import os
import sys
import tomllib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import tomli_w
from jinja2 import Environment, PackageLoader, StrictUndefined

from fedpdc_med.common.errors import UserError
from fedpdc_med.common.paths import home
from fedpdc_med.engines.flare.project import Project
from fedpdc_med.runs.directory import replace_text

Role = Literal["coordinator", "hospital", "administrator"]
LAUNCH = "fedpdc_med.engines.flare.launch"  # named, not imported: FLARE takes a second
MODULES = {
    "coordinator": ("nvflare.private.fed.app.server.server_train", "fed_server.json"),
    "hospital": ("nvflare.private.fed.app.client.client_train", "fed_client.json"),
}


@dataclass(frozen=True)
class Kit:
    """Whose kit it is; written into it as kit.toml."""

    name: str
    role: Role
    organisation: str


def write_pages(kit: Kit, folder: Path, project: Project) -> None:
    (folder / "kit.toml").write_text(tomli_w.dumps(asdict(kit)))
    pages = Environment(loader=PackageLoader("fedpdc_med.engines.flare", "pages"), undefined=StrictUndefined)
    pages.trim_blocks = pages.lstrip_blocks = pages.keep_trailing_newline = True
    (folder / "READ_ME_FIRST.md").write_text(pages.get_template(f"{kit.role}.md.j2").render(kit=kit, project=project))
    (folder / "readme.txt").unlink(missing_ok=True)  # FLARE's own, which starts things another way
    if kit.role != "administrator":
        unit = pages.get_template("unit.service.j2").render(kit=kit, project=project)
        (folder / f"fedpdc-{kit.name}.service").write_text(unit)


def read_kit(folder: Path) -> Kit:
    try:
        return Kit(**tomllib.loads((folder / "kit.toml").read_text()))
    except (OSError, tomllib.TOMLDecodeError, TypeError):
        raise UserError(f"{folder} is no start-up kit (kit.toml is missing or damaged)") from None


def start_command(folder: Path) -> list[str]:
    """What runs a kit in the foreground: FLARE's server or client behind our doors, with the kit's certificates."""
    kit = read_kit(folder)
    if kit.role == "administrator":
        raise UserError(f"{folder} is an administrator's kit, which has nothing to start; see fedpdc federation run")
    module, config = MODULES[kit.role]
    settings = ["secure_train=true", f"org={kit.organisation}", "config_folder=config"]
    if kit.role == "hospital":
        settings.append(f"uid={kit.name}")
    return [sys.executable, "-u", "-m", LAUNCH, module, "-m", str(folder.resolve()), "-s", config, "--set", *settings]


def settle(folder: Path) -> None:
    """FLARE wants absolute folders for its jobs, and a kit learns only now where it lies."""
    file = folder / "local" / "resources.json"
    if read_kit(folder).role != "coordinator":
        return
    resources = json.loads(file.read_text())
    resources["snapshot_persistor"]["args"]["storage"]["args"]["root_dir"] = str(folder.resolve() / "snapshots")
    for one in resources["components"]:
        if one["id"] == "job_manager":
            one["args"]["uri_root"] = str(folder.resolve() / "jobs")
    replace_text(file, json.dumps(resources, indent=2) + "\n")


def start_environment(role: Role, data: Path | None = None) -> dict[str, str]:
    """Job processes inherit where the films and runs lie; a relative folder would be another one in the kit.

    FLARE puts the text of an exception into what it answers, and at a hospital that text may name files: there it gives
    the exception's type only, here and in its own log. No process finds a module in the folder that it runs in: that
    is the kit, where jobs are unpacked.
    """
    quiet = {"NVFLARE_SECURE_LOGGING": "true"} if role == "hospital" else {}
    where = {"FEDPDC_HOME": str((data or home()).resolve()), "PYTHONSAFEPATH": "1"}
    return {**os.environ, **where, "MALLOC_ARENA_MAX": "4", **quiet}
