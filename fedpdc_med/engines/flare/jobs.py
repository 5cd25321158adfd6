"""A federation's rounds as a series of short jobs, each starting from the last checkpoint."""

import contextlib
import io
import json
import logging
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nvflare.fuel.flare_api.api_spec import (
    AuthenticationError,
    AuthorizationError,
    InternalError,
    InvalidJobDefinition,
    JobNotFound,
    NoReply,
    SessionClosed,
)
from nvflare.fuel.flare_api.flare_api import Session, new_secure_session

from fedpdc_med.common.errors import UserError, WorkFailed
from fedpdc_med.engines.flare import doors
from fedpdc_med.engines.flare.coordinator_run import check_own
from fedpdc_med.engines.flare.project import read_kit
from fedpdc_med.engines.flare.provision import CONTROLLER, EXECUTOR
from fedpdc_med.federation.checkpoint import read_progress
from fedpdc_med.runs.directory import Run, read_run
from fedpdc_med.runs.plan import Plan

ASK_FOR_WORK = 0.2  # seconds between requests of an idle site
LOOK = 1.0  # seconds between checks of a job
TROUBLE = (SessionClosed, InternalError, InvalidJobDefinition, JobNotFound, NoReply)  # no common base class


@dataclass(frozen=True)
class Pace:
    """How a run is cut into jobs, and how long a round waits."""

    rounds_per_job: int = 5
    deadline: float = 1800.0  # seconds to wait for the sites in each round
    min_responses: int | None = None  # answers that close a round; None: all
    min_sites: int = 1  # sites that must be connected before a job starts
    wait: float = 600.0  # seconds to wait for the coordinator and that many sites


@contextlib.contextmanager
def session(admin_kit: Path, seconds: float = 10.0) -> Iterator[Session]:
    """Log in with an administrator's certificate."""
    kit = read_kit(admin_kit)
    if kit.role != "administrator":
        raise UserError(f"{admin_kit} is a kit for the role {kit.role}; use an administrator's kit")
    logging.getLogger("nvflare").setLevel(logging.CRITICAL)
    doors.install()
    with flare_errors(kit.name):
        with contextlib.redirect_stdout(io.StringIO()):  # FLARE prints what it does
            opened = new_secure_session(kit.name, str(admin_kit.resolve()), timeout=seconds)
        try:
            yield opened
        finally:
            with contextlib.suppress(Exception):
                opened.close()


@contextlib.contextmanager
def flare_errors(name: str) -> Iterator[None]:
    """FLARE's exceptions as our own: a mistake to correct, or a problem that may pass."""
    try:
        yield
    except AuthenticationError as error:
        raise UserError(f"the coordinator does not accept {name}: {error}") from None
    except AuthorizationError:
        raise UserError(
            f"{name} may not do this: only an administrator with the role lead can start and stop runs"
        ) from None
    except ConnectionError:
        raise WorkFailed("the coordinator does not respond; check that it is running and its port is open") from None
    except TROUBLE as error:
        raise WorkFailed(f"the coordinator could not do this: {error}") from None


def connected(opened: Session) -> list[str]:
    return sorted(client.name for client in opened.get_system_info().client_info)


def write_job(folder: Path, plan: Plan, run: Run, sites: list[str], pace: Pace, rounds: int) -> Path:
    """A job folder: two configuration files and FLARE's own description, no code."""
    config = folder / "app" / "config"
    config.mkdir(parents=True)
    described = plan.model_dump(mode="json")
    rounds_args = {
        "plan": described,
        "run": run.folder.name,
        "sites": sites,
        "rounds": rounds,
        "deadline": pace.deadline,
        "min_responses": pace.min_responses,
    }
    server = {
        "format_version": 2,
        "server": {"heart_beat_timeout": 600, "task_request_interval": ASK_FOR_WORK},
        "workflows": [{"id": "rounds", "path": CONTROLLER, "args": rounds_args}],
        "components": [],
    }
    trainer = {"tasks": ["train"], "executor": {"path": EXECUTOR, "args": {"plan": described}}}
    client = {"format_version": 2, "executors": [trainer], "components": []}
    meta = {
        "name": folder.name,
        "resource_spec": {},
        "deploy_map": {"app": ["@ALL"]},
        "min_clients": 1,
        "mandatory_clients": [],
    }
    (config / "config_fed_server.json").write_text(json.dumps(server), encoding="utf-8")
    (config / "config_fed_client.json").write_text(json.dumps(client), encoding="utf-8")
    (folder / "meta.json").write_text(json.dumps(meta), encoding="utf-8")
    return folder


def run_jobs(
    admin_kit: Path, plan: Plan, run: Run, sites: list[str], pace: Pace, on_round: Callable[[Run], None]
) -> None:
    """Submit job after job until the run is finished; `on_round` is called whenever the run may have changed."""
    unlucky = 0
    while not run.finished:
        before = done(run)
        check_own(read_run(run.folder).config, plan)
        try:
            one_job(admin_kit, plan, run, sites, min(pace.rounds_per_job, plan.rounds - before) or 1, pace, on_round)
        except WorkFailed as error:
            trouble = str(error)
        else:
            trouble = why_stopped(run)
        unlucky = 0 if done(run) > before else unlucky + 1
        if unlucky >= 3 and not run.finished:
            raise WorkFailed(
                f"three jobs in a row completed no round: {trouble}. Completed rounds are saved in {run.folder}"
            )


def one_job(
    admin_kit: Path, plan: Plan, run: Run, sites: list[str], rounds: int, pace: Pace, on_round: Callable[[Run], None]
) -> None:
    (run.folder / "stopped.json").unlink(missing_ok=True)
    wait_for_sites(admin_kit, pace)
    with session(admin_kit) as opened, tempfile.TemporaryDirectory() as scratch:
        folder = write_job(Path(scratch) / f"fedpdc-{plan.run}", plan, run, sites, pace, rounds)
        stop_earlier(opened, folder.name)
        job = opened.submit_job(str(folder))
        try:
            while not run.finished and not ended(opened.get_job_meta(job)):  # FLARE takes seconds to end a job
                on_round(run)
                time.sleep(LOOK)
        except KeyboardInterrupt:
            with contextlib.suppress(Exception):
                opened.abort_job(job)
            raise
    on_round(run)


def stop_earlier(opened: Session, name: str) -> None:
    """A job of this run may still be running if its `run` command was lost, or be listed so if the coordinator died."""
    for job in opened.list_jobs(name_prefix=name):
        if job["job_name"] == name and not ended(job):
            with contextlib.suppress(Exception):  # a dead job cannot be stopped, and need not be
                opened.abort_job(job["job_id"])


def ended(meta: dict[str, Any]) -> bool:
    return str(meta.get("status", "")).startswith("FINISHED")


def wait_for_sites(admin_kit: Path, pace: Pace) -> None:
    """A job reaches the sites that are connected when it starts."""
    until, found, trouble = time.monotonic() + pace.wait, list[str](), ""
    while time.monotonic() < until:
        try:
            with session(admin_kit) as opened:
                while time.monotonic() < until:
                    found = connected(opened)
                    if len(found) >= pace.min_sites:
                        return
                    time.sleep(LOOK)
        except WorkFailed as error:
            trouble = f" ({error})"
            time.sleep(LOOK)
    raise WorkFailed(f"{len(found)} of at least {pace.min_sites} sites are connected after {pace.wait:g} s{trouble}")


def done(run: Run) -> int:
    progress = read_progress(run)
    return progress.round if progress else 0


def why_stopped(run: Run) -> str:
    try:
        return str(json.loads((run.folder / "stopped.json").read_text(encoding="utf-8"))["reason"])
    except (OSError, ValueError, KeyError):
        return (
            "the job ended early; see log.txt in the coordinator's kit. If it cannot write the run, use the account "
            "that the coordinator runs as"
        )
