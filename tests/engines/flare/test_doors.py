"""Who gets in, who may start a job, and what a hospital refuses to run: against the running federation."""

import json
import runpy
import shutil
import socket
import ssl
import time
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from nvflare.fuel.flare_api.api_spec import AuthorizationError
from nvflare.lighter.utils import load_private_key_file, sign_folders

from fedpdc_med.engines.flare.jobs import Pace, connected, ended, session, write_job
from fedpdc_med.engines.flare.parties import Parties
from fedpdc_med.engines.flare.provision import provision

LEAD = "lead@example.org"
LONG = 300.0
everything = runpy.run_path(str(Path(__file__).parent / "at_one_site" / "dishonest" / "asking.py"))["everything"]


def first_byte(federation, kit=None):
    """Knock at the coordinator's port with a kit's certificate, or none, and ask for a page."""
    ours = federation.trial.kits / "south" / "startup"
    context = ssl.create_default_context(cafile=ours / "rootCA.pem")
    if kit:
        context.load_cert_chain(kit / "startup" / "client.crt", kit / "startup" / "client.key")
    port = federation.trial.project.port
    try:
        with (
            socket.create_connection(("localhost", port), timeout=60) as raw,
            context.wrap_socket(raw, server_hostname="localhost") as safe,
        ):
            safe.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            return safe.recv(1)
    except (ssl.SSLError, ConnectionError):
        return b""


@pytest.fixture(scope="module")
def foreign_kits(federation, tmp_path_factory):
    """The same names from another authority; they trust our coordinator too, which has never heard of them."""
    kits = tmp_path_factory.mktemp("foreign")
    provision(federation.trial.project, kits)
    ours = (federation.trial.kits / "south" / "startup" / "rootCA.pem").read_bytes()
    for file in kits.glob("*/startup/rootCA.pem"):
        file.write_bytes(file.read_bytes() + ours)  # its own comes first: FLARE starts no kit that is not of that one
    return kits


def wait_for(words, file, since=0):
    """What FLARE says of a refusal stands in a party's console."""
    until = time.monotonic() + LONG
    while words not in file.read_text(encoding="utf-8")[since:]:
        assert time.monotonic() < until, f"{file.parent.name} never said: {words}"
        time.sleep(0.2)


def test_the_coordinator_answers_only_to_certificates_of_its_own_authority(federation, foreign_kits):
    federation.wait_connected()
    assert first_byte(federation, federation.trial.kits / "south") == b"H"
    assert first_byte(federation, None) == b""
    assert first_byte(federation, foreign_kits / "south") == b""


def test_a_kit_of_another_authority_and_one_with_anothers_name_do_not_get_in(federation, foreign_kits, tmp_path):
    """Real FLARE clients: a foreign kit, and south's kit that calls itself north."""
    federation.wait_connected()
    renamed = tmp_path / "renamed"
    shutil.copytree(federation.trial.kits / "south", renamed, ignore=shutil.ignore_patterns("*.txt", "*.fl", "*-*-*-*"))
    text = (renamed / "kit.toml").read_text(encoding="utf-8")
    (renamed / "kit.toml").write_text(text.replace('"south"', '"north"'), encoding="utf-8")
    asked = federation.trial.kits / "coordinator" / "console.txt"
    before = len(asked.read_text(encoding="utf-8"))
    with Parties() as intruders:
        for kit in (foreign_kits / "west", renamed):
            with (kit / "console.txt").open("ab") as console:
                intruders.start(kit, tmp_path / "data", console)
        wait_for("authenticated as 'south' but claimed endpoint 'north'", asked, before)
        wait_for("failed with exception", foreign_kits / "west" / "console.txt")  # said of its fourth attempt
        with session(federation.trial.admin_kit) as opened:
            assert connected(opened) == ["north", "south", "west"]
    registered = "Successfully registered client"
    for kit in (renamed, foreign_kits / "west"):
        assert registered not in (kit / "console.txt").read_text(encoding="utf-8")
    assert registered in (federation.trial.kits / "south" / "console.txt").read_text(encoding="utf-8")


def job(federation, folder, tmp_path, change=lambda folder: None):
    run = federation.begin(tmp_path / folder, rounds=1)
    plan = run.plan
    made = write_job(tmp_path / f"job-{folder}", plan, run, ["north", "south", "west"], Pace(deadline=30), 1)
    change(made)
    return run, made


def add_code(folder):
    custom = folder / "app" / "custom"
    custom.mkdir()
    (custom / "mine.py").write_text("print('code from a job')\n", encoding="utf-8")


def name_another_class(folder):
    file = folder / "app" / "config" / "config_fed_client.json"
    config = json.loads(file.read_text(encoding="utf-8"))
    config["executors"][0]["executor"] = {"path": "nvflare.app_common.np.np_trainer.NPTrainer", "args": {}}
    file.write_text(json.dumps(config), encoding="utf-8")


def outcome(opened, folder):
    number = opened.submit_job(str(folder))
    until = time.monotonic() + LONG
    while time.monotonic() < until:
        meta = opened.get_job_meta(number)
        if ended(meta):
            return meta
        time.sleep(1)
    raise AssertionError("the job did not end")


@dataclass
class Snapshot:
    """What an attack could have changed at a hospital: its files, and its process."""

    files: dict[str, bytes]
    process: int

    @classmethod
    def of(cls, federation, name):
        kit = federation.trial.kits / name
        kept = [file for folder in ("local", "startup") for file in (kit / folder).rglob("*") if file.is_file()]
        files = {str(file.relative_to(kit)): file.read_bytes() for file in kept if "__pycache__" not in file.parts}
        process = federation.parties.running[name]
        assert process.poll() is None
        return cls(files, process.pid)


@pytest.fixture(scope="module")
def signed_job(federation, tmp_path_factory):
    """A job as the lead signs it, to be sent again under another name."""
    place = tmp_path_factory.mktemp("signed")
    _, folder = job(federation, "signed", place)
    startup = federation.trial.kits / LEAD / "startup"
    sign_folders(str(folder / "app"), load_private_key_file(startup / "client.key"), str(startup / "client.crt"))
    shutil.make_archive(str(place / "app"), "zip", folder / "app")
    return place / "app.zip"


def ask_by(federation, party, target, origin, app):
    """Have a party's own process ask; FLARE calls the coordinator's `server`."""
    file = federation.place / f"asked-by-{party}"
    answers = Path(f"{file}.answers")
    answers.unlink(missing_ok=True)
    flare_name = "server" if party == "coordinator" else party
    draft = file.with_suffix(".draft")
    draft.write_text(
        json.dumps({"party": flare_name, "target": target, "origin": origin, "app": str(app)}), encoding="utf-8"
    )
    draft.replace(file)
    until = time.monotonic() + LONG
    while not answers.exists():
        assert time.monotonic() < until, f"{party} did not ask"
        time.sleep(0.5)
    return json.loads(answers.read_text(encoding="utf-8"))


def assert_refused(answers):
    """Every request had an answer, and the answer is no."""
    assert len(answers) == 38
    for asked, answer in answers.items():
        assert not answer.startswith("ok") or answer in ("ok: invalid_request", "ok: refused"), (asked, answer)
        assert not any(secret in answer for secret in ("SITE", "PRIVATE", "client.key", "PATH", "python")), asked


def test_a_hospital_reads_and_changes_nothing_at_another(federation, signed_job):
    federation.wait_connected()
    before = Snapshot.of(federation, "north")
    for origin in ("south", "server", "north"):
        assert_refused(ask_by(federation, "south", "north", origin, signed_job))
    assert Snapshot.of(federation, "north") == before


def test_no_administrator_reads_or_changes_anything_at_a_hospital(federation, signed_job):
    federation.wait_connected()
    before = Snapshot.of(federation, "north")
    for person in ("member@example.org", LEAD):
        for origin in (None, "server"):  # a session each: the claim stays with the connection
            with session(federation.trial.kits / person) as opened:
                cell = opened.api.cell.core_cell
                assert_refused(everything(cell, "north", origin or cell.get_fqcn(), signed_job))
    assert Snapshot.of(federation, "north") == before


def test_a_hospital_refuses_a_dishonest_coordinator_and_trains_again_with_an_honest_one(
    federation, signed_job, tmp_path
):
    """One whose doors are open, so that the others' requests reach the hospital through it too."""
    federation.wait_connected()
    before = Snapshot.of(federation, "north")
    federation.parties.kill("coordinator")
    federation.start("coordinator", dishonest=True)
    try:
        federation.wait_connected()
        assert_refused(ask_by(federation, "coordinator", "north", "server", signed_job))
        assert_refused(ask_by(federation, "south", "north", "south", signed_job))
        with session(federation.trial.kits / "member@example.org") as opened:
            cell = opened.api.cell.core_cell
            assert_refused(everything(cell, "north", cell.get_fqcn(), signed_job))
    finally:
        federation.parties.kill("coordinator")
        federation.start("coordinator")
    assert Snapshot.of(federation, "north") == before
    federation.wait_connected()
    run = federation.run(federation.begin(tmp_path / "afterwards", rounds=1))
    assert [site.status for site in run.rounds[0].sites.values()] == ["ok"] * 3


def test_other_accounts_of_a_hospitals_machine_cannot_join_its_processes(federation):
    """FLARE opens a port for the processes of its jobs; without the kit's certificate nothing can be said there."""
    federation.wait_connected()
    process = psutil.Process(federation.parties.running["north"].pid)
    ports = [one.laddr.port for one in process.net_connections("tcp") if one.status == psutil.CONN_LISTEN]
    assert ports
    for port in ports:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            talk_to(port)


def talk_to(port):
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection(("localhost", port), timeout=20) as raw, context.wrap_socket(raw) as safe:
        safe.sendall(b"anybody")
        if not safe.recv(1):
            raise ConnectionError


def test_a_member_may_look_but_not_submit(federation, tmp_path):
    federation.wait_connected()
    _, folder = job(federation, "by-member", tmp_path)
    with session(federation.trial.kits / "member@example.org") as opened:
        assert connected(opened) == ["north", "south", "west"]
        with pytest.raises(AuthorizationError):
            opened.submit_job(str(folder))


def test_a_hospitals_files_cannot_be_read_by_an_administrator(federation):
    """As FLARE's own console asks for them, through the coordinator."""
    federation.wait_connected()
    with session(federation.trial.admin_kit) as opened:
        assert opened.cat_target("north", file="log.txt").strip() == "invalid_request"


def test_a_job_with_code_or_another_class_is_refused_by_the_coordinator_and_by_each_site(federation, tmp_path):
    federation.wait_connected()
    run, folder = job(federation, "coded", tmp_path, add_code)
    with session(federation.trial.admin_kit) as opened:
        assert deployed(outcome(opened, folder)) == ["server: BYOC not permitted"]
    assert run.rounds == []
    rights = federation.trial.kits / "coordinator" / "local" / "authorization.json"
    strict = rights.read_text(encoding="utf-8")
    lax = json.loads(strict)
    lax["permissions"]["lead"]["byoc"] = "any"
    restart(federation, rights, json.dumps(lax))  # a coordinator that has been talked into it
    try:
        run, folder = job(federation, "coded-again", tmp_path, add_code)
        other_run, other = job(federation, "other-class", tmp_path, name_another_class)
        with session(federation.trial.admin_kit) as opened:
            found = deployed(outcome(opened, folder))
            assert outcome(opened, other)["status"] != "FINISHED:COMPLETED"
    finally:
        restart(federation, rights, strict)
    for site in ("north", "south", "west"):
        assert f"{site}: NVFLARE_ERROR: BYOC not permitted" in found
        assert "ComponentNotAuthorized" in (federation.trial.kits / site / "console.txt").read_text(encoding="utf-8")
    assert run.rounds == other_run.rounds == []


def deployed(meta):
    assert meta["status"] == "FINISHED:FAILED_TO_RUN"
    return meta["job_deploy_detail"]


def restart(federation, file, text):
    federation.parties.kill("coordinator")
    file.write_text(text, encoding="utf-8")
    federation.start("coordinator")
    federation.wait_connected()
