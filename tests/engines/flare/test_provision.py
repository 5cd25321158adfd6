"""Provisioning without any process: what is in each party's kit, and that hospitals can be added."""

import json
import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from cryptography import x509
from nvflare.apis.workspace import Workspace
from nvflare.fuel.sec.authz import AuthzContext, Person
from nvflare.security.logging import secure_format_exception
from nvflare.security.security import FLAuthorizer

from fedpdc_med.common.errors import UserError
from fedpdc_med.engines.flare.parties import start_command, start_environment
from fedpdc_med.engines.flare.preflight import data_folder, policy
from fedpdc_med.engines.flare.project import read_kit, read_project
from fedpdc_med.engines.flare.provision import provision

PROJECT = """name = "chest-consortium"
coordinator = "coordinator.example.org"
port = 8102
[[hospital]]
name = "harbor-general"
title = "Harbor General Hospital"
[[hospital]]
name = "hill-country"
[[administrator]]
name = "lead@example.org"
[[administrator]]
name = "guest@example.org"
role = "member"
"""


@pytest.fixture(scope="module")
def kits(tmp_path_factory):
    place = tmp_path_factory.mktemp("consortium")
    (place / "project.toml").write_text(PROJECT, encoding="utf-8")
    command = [sys.executable, "-m", "fedpdc_med.cli", "federation", "provision", "project.toml"]
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "5 new kits" in done.stdout
    return place / "kits"


def test_every_party_gets_a_kit_with_a_plain_page(kits):
    parties = {"coordinator", "harbor-general", "hill-country", "lead@example.org", "guest@example.org"}
    assert {folder.name for folder in kits.iterdir()} == parties | {"authority"}
    for name in parties:
        page = (kits / name / "READ_ME_FIRST.md").read_text(encoding="utf-8")
        assert "Research use only" in page and "8102" in page and "coordinator.example.org" in page
        assert max(map(len, page.splitlines())) <= 125
    unit = (kits / "harbor-general" / "fedpdc-harbor-general.service").read_text(encoding="utf-8")
    assert "ExecStart=" in unit and "federation start" in unit and "Restart=always" in unit
    assert "SuccessExitStatus=130" in unit  # stopping it is no failure


@pytest.mark.parametrize("party", ["harbor-general", "coordinator"])
def test_a_page_makes_one_account_and_runs_every_command_as_it(kits, party):
    page = (kits / party / "READ_ME_FIRST.md").read_text(encoding="utf-8")
    assert "useradd --system" in page and "-c constraints.txt" in page and 'install "fedpdc_med' not in page
    commands = re.findall(r"([\w-]*fedpdc) (?:ingest|reference|federation) ", page)
    assert len(commands) >= 3 and set(commands) == {"as-fedpdc"}
    assert page.index("chown -R fedpdc /srv/fedpdc`") > page.index("alias as-fedpdc")


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
@pytest.mark.parametrize("party", ["harbor-general", "coordinator"])
def test_systemd_takes_the_unit(kits, party, tmp_path):
    unit = (kits / party / f"fedpdc-{party}.service").read_text(encoding="utf-8")
    (tmp_path / "tried.service").write_text(unit.replace("/opt/fedpdc/bin/fedpdc", sys.executable), encoding="utf-8")
    command = ["systemd-analyze", "verify", "--man=no", str(tmp_path / "tried.service")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_keys_are_private_and_no_two_parties_share_one(kits):
    keys = [*kits.glob("*/startup/*.key")]
    assert len(keys) == 5
    assert {stat.S_IMODE(file.stat().st_mode) for file in keys} == {0o600}
    assert len({file.read_bytes() for file in keys}) == 5
    assert stat.S_IMODE((kits / "authority").stat().st_mode) == 0o700


def test_a_hospital_runs_only_the_installed_trainer_and_nobody_may_bring_code(kits):
    local = kits / "harbor-general" / "local"
    assert json.loads((local / "resources.json").read_text(encoding="utf-8"))["class_allow_list"] == [
        "fedpdc_med.engines.flare.executor.SiteTrainer"
    ]
    rights = json.loads((local / "authorization.json").read_text(encoding="utf-8"))["permissions"]
    assert rights["lead"]["byoc"] == rights["lead"]["shell_commands"] == "none"
    assert rights["member"] == {"view": "any", "show_errors": "none", "show_stats": "none"}


@pytest.mark.parametrize("role", ["lead", "member"])
def test_nobody_may_ask_a_hospitals_process_for_its_errors(kits, role):
    """By FLARE's own reading of the kit, also where it falls back to its default file."""
    for name in ("authorization.json", "authorization.json.default"):
        policy = FLAuthorizer(
            "harbor", json.loads((kits / "harbor-general" / "local" / name).read_text(encoding="utf-8"))
        )
        person = Person("someone@example.org", "consortium", role)
        may = {one: policy.authorize(AuthzContext(one, person))[0] for one in ("show_errors", "show_stats", "byoc")}
        assert may == {"show_errors": False, "show_stats": False, "byoc": False}
        assert policy.authorize(AuthzContext("check_status", person))[0]


@pytest.mark.parametrize("party", ["harbor-general", "coordinator"])
def test_flare_finds_no_open_file_to_fall_back_to(kits, party):
    place = Workspace(str(kits / party), party)
    local = kits / party / "local"
    ours = (local / "authorization.json").read_text(encoding="utf-8")
    (local / "authorization.json").rename(local / "away")
    try:
        assert Path(place.get_authorization_file_path()).read_text(encoding="utf-8") == ours
    finally:
        (local / "away").rename(local / "authorization.json")
    (local / "resources.json").rename(local / "away")
    try:
        assert place.get_resources_file_path() is None
    finally:
        (local / "away").rename(local / "resources.json")


def changed(kit, name, change):
    file = kit / "local" / name
    content = json.loads(file.read_text(encoding="utf-8"))
    change(content)
    file.write_text(json.dumps(content), encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("authorization.json", lambda found: found["permissions"]["lead"].update(byoc="any")),
        ("authorization.json", lambda found: found["permissions"]["member"].pop("show_errors")),
        ("authorization.json", lambda found: found["permissions"].update(project_admin="any")),
        ("resources.json", lambda found: found["class_allow_list"].append("os.")),
        ("resources.json", lambda found: found.pop("class_allow_list")),
        ("resources.json", lambda found: found.update(class_list_enforcement_mode="warn")),
        ("resources.json", lambda found: found.update(allow_log_streaming=True)),
        ("resources.json", lambda found: found["components"].append({"id": "mine", "path": "os.system"})),
        ("resources.json", lambda found: found["components"][-1].update(path="nvflare.another.Launcher")),
        ("resources.json", lambda found: found.update(handlers=[{"path": "os.system"}])),
        ("comm_config.json", lambda found: found.update(comm_driver_path="/tmp/drivers")),
        ("comm_config.json", lambda found: found["internal"]["resources"].update(connection_security="clear")),
        ("privacy.json", lambda found: found.update(default_scope="other")),
        ("privacy.json", lambda found: found["scopes"][0].update(task_result_filters=[])),
        ("privacy.json", lambda found: found["scopes"].append({"name": "open", "task_result_filters": []})),
    ],
)
def test_a_policy_that_was_changed_or_lost_is_named(kits, tmp_path, name, change):
    kit = tmp_path / "kit"
    shutil.copytree(kits / "harbor-general", kit)
    assert policy(kit).holds
    changed(kit, name, change)
    assert not policy(kit).holds and name in policy(kit).found
    (kit / "local" / name).write_text("{", encoding="utf-8")
    assert not policy(kit).holds and name in policy(kit).found
    (kit / "local" / name).unlink()
    assert not policy(kit).holds and name in policy(kit).found


@pytest.mark.parametrize("name", ["custom", "relay__resources.json", "job_resources.json"])
def test_what_flare_would_load_beside_the_policies_is_named(kits, tmp_path, name):
    kit = tmp_path / "kit"
    shutil.copytree(kits / "harbor-general", kit)
    (kit / "local" / "hospital.py").write_text("SITE = ...", encoding="utf-8")
    assert policy(kit).holds
    (kit / "local" / name).mkdir()
    assert not policy(kit).holds and f"local/{name}" in policy(kit).found


def test_a_kit_can_be_started_behind_our_doors_only(kits):
    scripts = [file.name for file in kits.rglob("*") if file.suffix in (".sh", ".ipynb", ".sample")]
    assert scripts == []
    for party in ("harbor-general", "coordinator"):
        resources = json.loads((kits / party / "local" / "resources.json").read_text(encoding="utf-8"))
        (launcher,) = [one["path"] for one in resources["components"] if one["id"] == "process_launcher"]
        assert launcher.startswith("fedpdc_med.engines.flare.launch.")
        assert "fedpdc_med.engines.flare.launch" in start_command(kits / party)
        assert "log_receiver" not in [one["id"] for one in resources["components"]]


def test_a_hospital_may_tighten_its_policy(kits, tmp_path):
    shutil.copytree(kits / "harbor-general", tmp_path / "kit")
    changed(tmp_path / "kit", "authorization.json", lambda found: found["permissions"].pop("member"))
    changed(tmp_path / "kit", "authorization.json", lambda found: found["permissions"]["lead"].update(view="none"))
    assert policy(tmp_path / "kit").holds


def test_flare_at_a_hospital_tells_the_type_of_an_error_only(kits, monkeypatch):
    """Its text may name files; FLARE puts it into replies unless its process is told not to."""
    told = start_environment(read_kit(kits / "harbor-general").role)
    monkeypatch.setenv("NVFLARE_SECURE_LOGGING", told["NVFLARE_SECURE_LOGGING"])
    assert "/data/films" not in secure_format_exception(FileNotFoundError("/data/films"))
    monkeypatch.delenv("NVFLARE_SECURE_LOGGING")
    assert "NVFLARE_SECURE_LOGGING" not in start_environment(read_kit(kits / "coordinator").role)


def test_the_coordinator_runs_one_job_at_a_time(kits):
    resources = json.loads((kits / "coordinator" / "local" / "resources.json").read_text(encoding="utf-8"))
    components = resources["components"]
    assert [one["args"]["max_jobs"] for one in components if one["id"] == "job_scheduler"] == [1]


def test_a_hospital_can_be_added_and_the_kits_of_the_others_stay_as_they_are(kits, tmp_path):
    kits = shutil.copytree(kits.parent, tmp_path / "consortium") / kits.name  # the others know of none
    before = {file: file.read_bytes() for file in kits.glob("*/startup/*.crt")}
    file = kits.parent / "project.toml"
    file.write_text(PROJECT + '[[hospital]]\nname = "lakeside"\n', encoding="utf-8")
    assert [kit.name for kit in provision(read_project(file), kits)] == ["lakeside"]
    assert {file: file.read_bytes() for file in before} == before
    issuers = {x509.load_pem_x509_certificate(one.read_bytes()).issuer for one in kits.glob("*/startup/*.crt")}
    assert len(issuers) == 1


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (("coordinator.example.org", "other.example.org"), "coordinator is 'other.example.org'"),
        (("8102", "8103"), "port is 8103"),
        (("port = 8102", 'port = 8102\nclasses = ["normal", "pneumonia"]'), "classes is"),
        (("chest-consortium", "lung-consortium"), "name is"),
    ],
)
def test_what_stands_in_every_kit_cannot_change_for_later_ones(kits, tmp_path, change, complaint):
    (tmp_path / "project.toml").write_text(PROJECT.replace(*change) + '[[hospital]]\nname = "late"\n', encoding="utf-8")
    with pytest.raises(UserError, match=f"{complaint}.*new --out folder"):
        provision(read_project(tmp_path / "project.toml"), kits)
    assert not (kits / "late").exists()


def test_an_interrupted_provisioning_leaves_no_open_kit(tmp_path, monkeypatch):
    (tmp_path / "project.toml").write_text(PROJECT, encoding="utf-8")
    project, kits = read_project(tmp_path / "project.toml"), tmp_path / "kits"

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("fedpdc_med.engines.flare.provision.write_pages", interrupted)
        provision(project, kits)
    assert not (kits / "coordinator").exists()
    assert len(provision(project, kits)) == 5
    assert not [*kits.glob(".*")] and (kits / "coordinator" / "READ_ME_FIRST.md").is_file()


def test_a_data_folder_must_be_the_kits_accounts_own(kits, tmp_path, monkeypatch):
    monkeypatch.setenv("FEDPDC_HOME", str(tmp_path / "data"))
    kit = kits / "harbor-general"
    assert "does not exist" in data_folder(kit).found
    (tmp_path / "data" / "runs").mkdir(parents=True)
    (tmp_path / "data").chmod(0o750)
    assert "other accounts can read" in data_folder(kit).found
    (tmp_path / "data").chmod(0o700)
    assert data_folder(kit).holds
    (tmp_path / "data" / "runs").chmod(0o500)
    assert "runs cannot be written" in data_folder(kit).found
    if os.geteuid() == 0:
        os.chown(tmp_path / "data" / "runs", 4321, -1)
        assert "runs and the kit belong to different accounts" in data_folder(kit).found


def test_a_kit_starts_under_its_own_name(kits):
    assert read_kit(kits / "harbor-general").role == "hospital"
    assert "uid=harbor-general" in start_command(kits / "harbor-general")
    with pytest.raises(UserError, match="administrator"):
        start_command(kits / "lead@example.org")


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (("harbor-general", "Harbor General"), "lower-case"),
        (("hill-country", "harbor-general"), "twice"),
        (("guest@example.org", "lead@example.org"), "twice"),
        (("hill-country", "authority"), "'authority' cannot be the name"),
        (("hill-country", "coordinator"), "'coordinator' cannot be the name"),
        (("hill-country", "server"), "'server' cannot be the name"),
        (("hill-country", "global"), "a site cannot be called 'global'"),
        (("hill-country", "reference"), "a site cannot be called 'reference'"),
        (("lead@example.org", "lead"), "administrator.0.name"),
        (("port = 8102", "port = 0"), "port"),
        (("coordinator.example.org", "http://here"), "host name"),
    ],
)
def test_a_mistake_in_the_project_file_is_named(tmp_path, change, complaint):
    (tmp_path / "project.toml").write_text(PROJECT.replace(*change, 1), encoding="utf-8")
    with pytest.raises(UserError, match=complaint):
        read_project(tmp_path / "project.toml")


def test_a_project_file_in_another_encoding_is_a_sentence(tmp_path):
    (tmp_path / "project.toml").write_bytes((PROJECT + "# für alle\n").encode("latin-1"))
    with pytest.raises(UserError, match="not UTF-8"):
        read_project(tmp_path / "project.toml")
