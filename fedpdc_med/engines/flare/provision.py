"""Startup kits for every party, made by FLARE's provisioning and restricted further by our own policies."""

import json
import logging
import os
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

import tomli_w
from jinja2 import Environment, PackageLoader, StrictUndefined
from nvflare.lighter.constants import CtxKey
from nvflare.lighter.entity import Project as FlareProject
from nvflare.lighter.impl.cert import CertBuilder
from nvflare.lighter.impl.static_file import StaticFileBuilder
from nvflare.lighter.impl.workspace import WorkspaceBuilder
from nvflare.lighter.provisioner import Provisioner

from fedpdc_med.common.errors import UserError, WorkFailed
from fedpdc_med.engines.flare.project import AUTHORITY, COORDINATOR_KIT, LAUNCH, Kit, Project

AGREED = "agreed.json"  # in the authority's folder: what every kit contains
EXECUTOR = "fedpdc_med.engines.flare.executor.SiteTrainer"
CONTROLLER = "fedpdc_med.engines.flare.controller.Rounds"
FILTER = "fedpdc_med.engines.flare.policy.OnlyModelAndNumbers"
JOBS = {"coordinator": f"{LAUNCH}.CoordinatorJobs", "hospital": f"{LAUNCH}.HospitalJobs"}
COMPONENTS = {  # the parts of FLARE that a hospital needs for a job
    "resource_manager": "nvflare.app_common.resource_managers.gpu_resource_manager.GPUResourceManager",
    "resource_consumer": "nvflare.app_common.resource_consumers.gpu_resource_consumer.GPUResourceConsumer",
}
GONE_AFTER = 40  # seconds without a heartbeat; clients send one every 10
# A party's own processes also identify each other by the kit's certificate, which keeps out other local accounts.
OWN_PROCESSES = {
    "internal": {"scheme": "tcp", "resources": {"host": "localhost", "connection_security": "mtls"}},
}
ROLES = {"lead": "lead", "member": "member"}
# FLARE's own start scripts, which bypass doors.py, and its examples.
NOT_OURS = (
    *(f"startup/{name}" for name in ("start.sh", "sub_start.sh", "stop_fl.sh", "fl_admin.sh", "readme.txt")),
    "startup/system_info.ipynb",
    "local/privacy.json.sample",
)


def provision(project: Project, out: Path) -> list[Kit]:
    """Write the kits that do not exist yet; existing certificates are kept, so that a hospital can be added."""
    out.mkdir(parents=True, exist_ok=True)
    for left in out.glob(".*.partial"):  # from an interrupted provisioning
        shutil.rmtree(left)
    check_agreed(project, out)
    made = run_flare(project, out / AUTHORITY)
    write_json(out / AUTHORITY / AGREED, agreed(project))
    kits = []
    for kit in parties(project):
        folder, fresh = out / kit.name, made / (project.coordinator if kit.role == "coordinator" else kit.name)
        if folder.exists():
            continue
        draft = out / f".{kit.name}.partial"  # so that no kit without its policies is ever sent
        shutil.copytree(fresh, draft)
        write_policies(kit, draft, project)
        write_pages(kit, draft, project)
        for file in (draft / "startup").glob("*.key"):
            file.chmod(0o600)
        draft.rename(folder)
        kits.append(kit)
    shutil.rmtree(made)
    return kits


def agreed(project: Project) -> dict[str, Any]:
    """What every kit contains, so that kits made later must contain the same."""
    return {
        "name": project.name,
        "coordinator": project.coordinator,
        "port": project.port,
        "classes": list(project.classes),
    }


def check_agreed(project: Project, out: Path) -> None:
    file = out / AUTHORITY / AGREED
    if not file.is_file() or not [*out.glob("*/kit.toml")]:
        return
    before = json.loads(file.read_text(encoding="utf-8"))
    for key, value in agreed(project).items():
        if before[key] != value:
            raise UserError(
                f"{key} is {value!r} in the project file, but the kits in {out} were made with {before[key]!r}; set it "
                "back, or make new kits for every party with a new --out folder"
            )


def parties(project: Project) -> list[Kit]:
    return [
        Kit(COORDINATOR_KIT, "coordinator", "consortium"),
        *(Kit(hospital.name, "hospital", hospital.organisation) for hospital in project.hospital),
        *(Kit(person.name, "administrator", person.organisation) for person in project.administrator),
    ]


def run_flare(project: Project, folder: Path) -> Path:
    """FLARE's own provisioning; returns the folder of new kits, one for each participant."""
    described = FlareProject(name=project.name, description="fedpdc_med")
    described.set_server(project.coordinator, "consortium", {"fed_learn_port": project.port})
    for hospital in project.hospital:
        described.add_client(hospital.name, hospital.organisation, {"allow_log_streaming": False})
    for person in project.administrator:
        described.add_admin(person.name, person.organisation, {"role": ROLES[person.role]})
    builders = [WorkspaceBuilder(), StaticFileBuilder(config_folder="config"), CertBuilder(project.valid_days)]
    before = os.umask(0o077)  # private keys are written here
    try:
        folder.mkdir(exist_ok=True)
        context = Provisioner(str(folder), builders).provision(described, logger=logging.getLogger(__name__))
    finally:
        os.umask(before)
    if context.get(CtxKey.BUILD_ERROR):
        raise WorkFailed("FLARE could not make the kits; see its messages above")
    made = context.get(CtxKey.CURRENT_PROD_DIR)
    if not made:
        raise UserError(f"{folder} is full; remove old prod_* folders in it")
    return Path(made)


def write_pages(kit: Kit, folder: Path, project: Project) -> None:
    (folder / "kit.toml").write_text(tomli_w.dumps(asdict(kit)), encoding="utf-8")
    pages = Environment(loader=PackageLoader("fedpdc_med.engines.flare", "pages"), undefined=StrictUndefined)
    pages.trim_blocks = pages.lstrip_blocks = pages.keep_trailing_newline = True
    (folder / "READ_ME_FIRST.md").write_text(
        pages.get_template(f"{kit.role}.md.j2").render(kit=kit, project=project), encoding="utf-8"
    )
    (folder / "readme.txt").unlink(missing_ok=True)  # FLARE's own, which describes another way to start
    if kit.role != "administrator":
        unit = pages.get_template("unit.service.j2").render(kit=kit, project=project)
        (folder / f"fedpdc-{kit.name}.service").write_text(unit, encoding="utf-8")


def write_policies(kit: Kit, folder: Path, project: Project) -> None:
    """Policies in the kit's local/ folder, which the party itself may make stricter."""
    local = folder / "local"
    for file in NOT_OURS:
        (folder / file).unlink(missing_ok=True)
    if kit.role == "administrator":
        return
    for name in ("authorization.json", "authorization.json.default"):  # with neither, FLARE would allow everything
        write_json(local / name, authorization(kit.role))
    resources = json.loads((local / "resources.json.default").read_text(encoding="utf-8"))
    (local / "resources.json.default").unlink()  # FLARE would use it if resources.json were missing
    if kit.role == "coordinator":
        resources["class_allow_list"] = [CONTROLLER]
        resources["servers"][0]["heart_beat_timeout"] = GONE_AFTER
        (scheduler,) = [one for one in resources["components"] if one["id"] == "job_scheduler"]
        scheduler["args"]["max_jobs"] = 1  # jobs of one run must not overlap
    else:
        # Whatever a job asks for, a hospital creates this one class only: no command launcher, no other trainer.
        resources["class_allow_list"] = [EXECUTOR]
        resources["allow_log_streaming"] = False
        write_json(local / "privacy.json", privacy(project))
    unwanted = ("site_log_streamer", "log_receiver")  # logs stay where they are written
    resources["components"] = [one for one in resources["components"] if one["id"] not in unwanted]
    (launcher,) = [one for one in resources["components"] if one["id"] == "process_launcher"]
    launcher["path"] = JOBS[kit.role]
    write_json(local / "resources.json", resources)
    write_json(local / "comm_config.json", OWN_PROCESSES)


def authorization(role: str) -> dict[str, Any]:
    """Leads submit and stop jobs, members can only look; nobody sends code, runs commands or reads files at a site."""
    lead = {
        "submit_job": "any",
        "clone_job": "n:submitter",
        "manage_job": "n:submitter",
        "download_job": "n:submitter" if role == "coordinator" else "none",
        "view": "any",
        "operate": "none",
        "shell_commands": "none",
        "byoc": "none",
        "server-predeployed-flwr": "none",
    }
    member = {"view": "any"}
    if role == "hospital":  # rights to single commands override those to their category; errors may name files
        for rights in (lead, member):
            rights |= {"show_errors": "none", "show_stats": "none"}
    return {"format_version": "1.0", "permissions": {"lead": lead, "member": member}}


def privacy(project: Project) -> dict[str, Any]:
    """FLARE applies these filters to every result that a job sends, whatever the job says."""
    only = {"path": FILTER, "args": {"classes": list(project.classes)}}
    scope = {"name": "default", "properties": {}, "task_result_filters": [only], "task_data_filters": []}
    return {"scopes": [scope], "default_scope": "default"}


def write_json(file: Path, content: dict[str, Any]) -> None:
    file.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
