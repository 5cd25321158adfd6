"""Checks before a party starts its kit: is everything there that the kit needs?"""

import datetime
import json
import os
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography import x509

from fedpdc_med.common.errors import UserError
from fedpdc_med.common.paths import home
from fedpdc_med.engines.flare.client import load_hospital
from fedpdc_med.engines.flare.project import read_kit
from fedpdc_med.engines.flare.provision import COMPONENTS, EXECUTOR, FILTER, JOBS, OWN_PROCESSES, authorization
from fedpdc_med.imaging.reference import Check, read_reference

# What else a hospital's local/ may contain: its site file, and FLARE's settings for logs and rights.
HARMLESS = ("hospital.py", "__pycache__", "authorization.json.default", "log_config.json", "log_config.json.default")
RESOURCES = {
    "format_version",
    "class_list_enforcement_mode",
    "class_allow_list",
    "allow_log_streaming",
    "client",
    "components",
}


@dataclass(frozen=True)
class Address:
    host: str
    port: int


def check_kit(folder: Path) -> list[Check]:
    kit = read_kit(folder)
    checks = [certificate(folder), private_key(folder)]
    if kit.role != "administrator":
        checks.append(data_folder(folder))
    if kit.role == "hospital":
        checks += [films(folder, kit.name), policy(folder), reachable(address(folder))]
    if kit.role == "coordinator":
        checks.append(reference())
    return checks


def certificate(folder: Path) -> Check:
    (file,) = (folder / "startup").glob("*.crt")
    until = x509.load_pem_x509_certificate(file.read_bytes()).not_valid_after_utc
    left = (until - datetime.datetime.now(datetime.UTC)).days
    found = f"valid for {left} more days" if left > 0 else "has expired; ask for a new kit"
    return Check("certificate", left > 0, found)


def private_key(folder: Path) -> Check:
    (file,) = (folder / "startup").glob("*.key")
    private = not file.stat().st_mode & 0o077
    found = "readable by its owner only" if private else f"other accounts can read it; use: chmod 600 {file}"
    return Check("private key", private, found)


def data_folder(folder: Path) -> Check:
    """The account that owns the kit runs it, so everything it will write must belong to that account."""
    place, account = home().resolve(), folder.stat().st_uid
    if not place.is_dir():
        return Check("data folder", False, f"FEDPDC_HOME={place} does not exist")
    if place.stat().st_mode & 0o077:
        return Check("data folder", False, f"other accounts can read {place}; use: chmod 700 {place}")
    for one in (place, *place.glob("*"), *place.glob("*/*")):
        if one.lstat().st_uid != account:
            found = f"{one} and the kit belong to different accounts; use: chown -R --reference={folder} {place}"
            return Check("data folder", False, found)
    for one in (place, place / "runs", place / "federation"):  # the last two are made when needed
        if one.exists() and not (one.stat().st_mode & 0o200 and os.access(one, os.W_OK)):
            return Check("data folder", False, f"{one} cannot be written; use: chmod u+w {one}, or choose another disk")
    return Check("data folder", True, f"{place} belongs to the kit's account and can be written")


def films(folder: Path, name: str) -> Check:
    try:
        site, store = load_hospital(folder, name)
    except UserError as error:
        return Check("films", False, str(error))
    training = int((store.manifest["split"] == "train").sum())
    return Check("films", training > 0, f"{training} of {len(store.manifest)} films are for training, site {site.name}")


def policy(folder: Path) -> Check:
    """Checks that a hospital has not lost one of its policies by accident."""
    rules = {
        "authorization.json": _rights,
        "resources.json": _closed,
        "privacy.json": _filtered,
        "comm_config.json": lambda found: bool(found == OWN_PROCESSES),
    }
    if others := sorted(file.name for file in (folder / "local").iterdir() if file.name not in {*rules, *HARMLESS}):
        found = f"local/{others[0]} is not part of a kit, and FLARE may run what it names; move it out of the kit"
        return Check("policy", False, found)
    for name, holds in rules.items():
        try:
            kept = holds(json.loads((folder / "local" / name).read_text(encoding="utf-8")))
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            kept = False
        if not kept:
            found = (
                f"local/{name} is missing or allows more than it should; restore the kit's file, or ask for a new kit"
            )
            return Check("policy", False, found)
    return Check("policy", True, "only model state and named numbers leave; only the installed trainer runs")


def _rights(found: Any) -> bool:
    """As provisioned, or stricter: single rights removed, or all rights of a role."""
    ours = authorization("hospital")["permissions"]
    return all(
        role in ours
        and rights.keys() == ours[role].keys()
        and all(value in (ours[role][name], "none") for name, value in rights.items())
        for role, rights in found["permissions"].items()
    )


def _closed(found: Any) -> bool:
    """Only one class that jobs may name, and only those parts of FLARE that a job needs, started behind doors.py."""
    enforced = found.get("class_list_enforcement_mode", "enforce") == "enforce" and not found["allow_log_streaming"]
    parts = {one["id"]: one["path"] for one in found["components"]}
    ours = {**COMPONENTS, "process_launcher": JOBS["hospital"]}
    only = len(parts) == len(found["components"]) and {*found} <= RESOURCES
    return only and enforced and parts == ours and bool(found["class_allow_list"] == [EXECUTOR])


def _filtered(found: Any) -> bool:
    """A job may name any scope of the site, so each must have the filter; jobs that name none get the default scope."""
    filtered = {}
    for scope in found["scopes"]:
        ours = [one for one in scope["task_result_filters"] if one["path"] == FILTER and "direction" not in one]
        filtered[scope["name"]] = bool(ours)
    return filtered.get(found["default_scope"], False) and all(filtered.values())


def reference() -> Check:
    try:
        made = read_reference(home() / "reference")
    except UserError as error:
        return Check("reference set", False, str(error))
    return Check("reference set", True, f"{made.facts['films']} films, version {made.facts['version']}")


def address(folder: Path) -> Address:
    client = json.loads((folder / "startup" / "fed_client.json").read_text(encoding="utf-8"))
    target = client["servers"][0]["service"]["target"]
    host, _, port = target.rpartition(":")
    return Address(host, int(port))


def reachable(where: Address) -> Check:
    try:
        socket.create_connection((where.host, where.port), timeout=5).close()
    except OSError as error:
        return Check("coordinator", False, f"{where.host}, port {where.port}: {error.strerror or error}")
    return Check("coordinator", True, f"{where.host}, port {where.port} responds")
