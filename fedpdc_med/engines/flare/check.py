"""What a party can check before it starts its kit: that everything the kit will need is there."""

import datetime
import json
import socket
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509

from fedpdc_med.engines.flare.kits import read_kit
from fedpdc_med.engines.flare.provision import EXECUTOR, FILTER
from fedpdc_med.engines.flare.site import load_hospital
from fedpdc_med.errors import UserError
from fedpdc_med.home import home
from fedpdc_med.imaging.reference import Check, read_reference


@dataclass(frozen=True)
class Address:
    host: str
    port: int


def check_kit(folder: Path) -> list[Check]:
    kit = read_kit(folder)
    checks = [certificate(folder), private_key(folder)]
    if kit.role == "hospital":
        checks += [films(folder, kit.name), policy(folder), reachable(address(folder))]
    if kit.role == "coordinator":
        checks.append(reference())
    return checks


def certificate(folder: Path) -> Check:
    (file,) = (folder / "startup").glob("*.crt")
    until = x509.load_pem_x509_certificate(file.read_bytes()).not_valid_after_utc
    left = (until - datetime.datetime.now(datetime.UTC)).days
    found = f"valid for {left} more days" if left > 0 else "has run out; ask for a new kit"
    return Check("certificate", left > 0, found)


def private_key(folder: Path) -> Check:
    (file,) = (folder / "startup").glob("*.key")
    private = not file.stat().st_mode & 0o077
    found = "readable by its owner only" if private else f"others can read it: chmod 600 {file}"
    return Check("private key", private, found)


def films(folder: Path, name: str) -> Check:
    try:
        site, store = load_hospital(folder, name)
    except UserError as error:
        return Check("films", False, str(error))
    training = int((store.manifest["split"] == "train").sum())
    return Check("films", training > 0, f"{training} of {len(store.manifest)} films to train on, module {site.name}")


def policy(folder: Path) -> Check:
    """The two policies that a hospital should not lose by accident."""
    filtered = FILTER in (folder / "local" / "privacy.json").read_text()
    closed = EXECUTOR in (folder / "local" / "resources.json").read_text()
    found = "only model state and named numbers leave; only the installed trainer runs"
    return Check("policy", filtered and closed, found if filtered and closed else "local/ is not as provisioned")


def reference() -> Check:
    try:
        made = read_reference(home() / "reference")
    except UserError as error:
        return Check("reference set", False, str(error))
    return Check("reference set", True, f"{made.facts['films']} films, version {made.facts['version']}")


def address(folder: Path) -> Address:
    target = json.loads((folder / "startup" / "fed_client.json").read_text())["servers"][0]["service"]["target"]
    host, _, port = target.rpartition(":")
    return Address(host, int(port))


def reachable(where: Address) -> Check:
    try:
        socket.create_connection((where.host, where.port), timeout=5).close()
    except OSError as error:
        return Check("coordinator", False, f"{where.host}, port {where.port}: {error.strerror or error}")
    return Check("coordinator", True, f"{where.host}, port {where.port} answers")
