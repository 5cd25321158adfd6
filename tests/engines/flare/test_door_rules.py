"""The rules at the doors, without any process; and what of FLARE they rely on."""

import inspect
import subprocess
import sys

import nvflare
import pytest
from nvflare.fuel.f3.cellnet.core_cell import CoreCell
from nvflare.fuel.f3.cellnet.defs import CellChannel, MessageHeaderKey, ReturnCode
from nvflare.fuel.f3.message import Message
from nvflare.fuel.f3.streaming.stream_const import StreamHeaderKey
from nvflare.fuel.utils.admin_name_utils import new_admin_client_name
from nvflare.private.admin_defs import Message as Request
from nvflare.private.fed.client.client_req_processors import ClientRequestProcessors

from fedpdc_med.engines.flare.doors import asked_in, install, why_refused
from fedpdc_med.engines.flare.launch import NEEDED, OfAJob, in_front_of

JOB, OTHER = "7f9c24e5-2c1a-4d0e-9d3b-6f1f0a8c1b2d", "0b1d0c55-7a0e-4a3e-8f5e-3c9f6f0f1e2d"
ADMIN = new_admin_client_name()
TASK = ("server_command", "get_task")


@pytest.mark.parametrize(
    ("me", "neighbour", "origin", "destination", "asked"),
    [
        ("north", "server", "server", "north", ("admin", "admin")),
        ("server", "north", "north", "server", ("task", "heart_beat")),
        ("server", f"north.{JOB}", f"north.{JOB}", f"server.{JOB}", TASK),
        (f"server.{JOB}", "server", f"north.{JOB}", f"server.{JOB}", TASK),
        (f"north.{JOB}", "server", f"server.{JOB}", f"north.{JOB}", ("return_only", "server_command:get_task")),
        (f"north.{JOB}", "north", f"server.{JOB}", f"north.{JOB}", ("sm__STREAM", "sm__ACK")),
        (f"north.{JOB}", "north", "north", f"north.{JOB}", ("client_command", "abort")),
        ("server", ADMIN, ADMIN, "server", ("hci_channel", "command")),
    ],
)
def test_what_a_job_needs_passes(me, neighbour, origin, destination, asked):
    assert why_refused(me, neighbour, origin, destination, asked) == ""


@pytest.mark.parametrize(
    ("me", "neighbour", "origin", "destination", "asked", "why"),
    [
        ("north", "server", "south", "north", ("admin", "admin"), "server speaks for south"),
        ("north", "server", ADMIN, "north", ("admin", "admin"), f"server speaks for {ADMIN}"),
        ("server", "south", "server", "north", ("admin", "admin"), "south speaks for server"),
        ("server", ADMIN, "server", "north", ("admin", "admin"), f"{ADMIN} speaks for server"),
        ("server", "south", "north", "server", ("task", "heart_beat"), "south speaks for north"),
        ("server", "south", "south", "north", ("admin", "admin"), "south may ask nothing of north"),
        ("server", ADMIN, ADMIN, "north", ("hci_channel", "command"), "may ask nothing of north"),
        ("server", ADMIN, ADMIN, f"server.{JOB}", TASK, "may ask nothing of server"),
        ("server", "south", f"south.{JOB}", f"north.{JOB}", TASK, "may ask nothing of north"),
        ("north", "server", "server", "north", ("_net_manager", "config_vars"), "may not ask north for config_vars"),
        ("north", "server", "server", "north", ("cellnet.channel", "bulk"), "may not ask north for bulk"),
        ("north", "server", f"server.{JOB}", "north", ("admin", "admin"), "may ask nothing of north"),
        ("north", "server", "server.local", "north", ("admin", "admin"), "server.local may ask nothing"),
        (f"north.{JOB}", "server", "server", f"north.{JOB}", ("client_command", "get_errors"), "for get_errors"),
        (f"north.{JOB}", "server", f"server.{JOB}", f"north.{JOB}", ("client_command", "abort"), "for abort"),
        (f"server.{JOB}", "server", f"north.{OTHER}", f"server.{JOB}", TASK, "not of one job"),
        ("server", "north", "north", "server", ("_net_manager", "stop"), "for stop"),
        ("server", f"north.{JOB}", f"north.{JOB}", f"server.{JOB}", ("server_command", "get_errors"), "get_errors"),
        (ADMIN, "server", "server", ADMIN, ("_net_manager", "process_info"), "for process_info"),
    ],
)
def test_anything_else_does_not(me, neighbour, origin, destination, asked, why):
    assert why in why_refused(me, neighbour, origin, destination, asked)


def test_what_is_asked_inside_a_stream_counts_not_the_stream():
    headers = {MessageHeaderKey.CHANNEL: "sm__STREAM", MessageHeaderKey.TOPIC: "sm__DATA"}
    assert asked_in(Message(headers)) == ("sm__STREAM", "sm__DATA")
    hidden = {StreamHeaderKey.CHANNEL: "admin", StreamHeaderKey.TOPIC: "admin"}
    assert asked_in(Message({**headers, **hidden})) == ("admin", "admin")
    assert why_refused("north", "server", "server", "north", ("sm__STREAM", "sm__DATA"))


@pytest.mark.parametrize("job", ["local", "startup", "../local", JOB.upper(), f"{JOB}/..", ""])
def test_a_job_that_is_not_named_by_a_uuid_is_refused(job):
    """FLARE removes the folder of that name before it looks at who asks."""
    every = ClientRequestProcessors.request_processors
    (deploy,) = [OfAJob(one) for one in every if "train.deploy" in one.get_topics()]
    for headers in ({"job_id": job}, {"job_id": JOB, "job_meta": {"job_id": job}}):
        asked = Request("train.deploy", b"")
        asked.headers.update(headers)
        assert deploy.process(asked, None).body == "refused"


def test_a_process_of_flare_starts_behind_the_doors_or_not_at_all():
    command = "python -m nvflare.private.fed.app.client.worker_process -m /kit -n job"
    assert in_front_of(command).startswith("python -m fedpdc_med.engines.flare.launch nvflare.private.fed.app.client.")
    with pytest.raises(RuntimeError):
        in_front_of("python -m nvflare.another")
    line = [sys.executable, "-m", "fedpdc_med.engines.flare.launch", "http.server", "--bind", "127.0.0.1"]
    done = subprocess.run(line, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "not a process of a federation" in done.stderr


@pytest.fixture
def cells():
    """A coordinator and a hospital in this process, connected by FLARE directly."""
    install()
    made = {name: CoreCell(name, "tcp://localhost:0", False, {}) for name in ("server", "north")}
    yield made
    for cell in made.values():
        CoreCell.ALL_CELLS.pop(cell.get_fqcn(), None)


def test_flare_asks_the_doors_before_it_decodes_or_passes_on(cells, monkeypatch):
    """With FLARE's own cells; a new version that asks later, or not at all, fails here."""
    decoded = []
    monkeypatch.setattr("nvflare.fuel.f3.cellnet.core_cell.decode_payload", lambda message: decoded.append(message))
    asked, north, server = [], cells["north"], cells["server"]
    north.register_request_cb("admin", "*", lambda request: asked.append(request))
    headers = {MessageHeaderKey.MSG_TYPE: "req", MessageHeaderKey.DESTINATION: "north"}
    headers |= {MessageHeaderKey.CHANNEL: "admin", MessageHeaderKey.TOPIC: "admin"}
    endpoint = {name: cell.endpoint for name, cell in cells.items()}
    north.process_message(endpoint["server"], None, 1, Message({**headers, MessageHeaderKey.ORIGIN: "south"}, b""))
    server.process_message(endpoint["north"], None, 1, Message({**headers, MessageHeaderKey.ORIGIN: "south"}, b""))
    assert (decoded, asked) == ([], [])
    north.process_message(endpoint["server"], None, 1, Message({**headers, MessageHeaderKey.ORIGIN: "server"}, b""))
    assert len(decoded) == len(asked) == 1


def test_the_doors_know_this_version_of_flare():
    """Who raises FLARE's version reads these points of it again: the doors stand on them."""
    assert nvflare.__version__.startswith("2.9.")
    every = {topic for one in ClientRequestProcessors.request_processors for topic in one.get_topics()}
    refused = {
        "info.reset_errors",
        "info.show_errors",
        "info.show_stats",
        "resource_manager.report_resources",
        "sys.configure_site_log",
        "sys.info",
        "sys.report_env",
        "sys.report_version",
        "sys.shell",
        "train.abort_task",
        "train.configure_job_log",
        "train.delete_run",
        "train.restart",
        "train.shutdown",
    }
    assert every == NEEDED | refused  # a command that is neither has to be looked at
    channels = {value for name, value in vars(CellChannel).items() if name.isupper()}
    assert len(channels) == 13
    assert list(inspect.signature(CoreCell.set_message_interceptor).parameters) == ["self", "cb", "args", "kwargs"]
    assert ReturnCode.AUTHENTICATION_ERROR == "authentication_error"
