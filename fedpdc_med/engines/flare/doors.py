"""Which party may send which request: every request to a process of a federation is checked here before decoding.

FLARE's client obeys an administrative command unless the message itself asks for authorisation, whoever sent it, and
its server passes messages on between parties. So a hospital here takes requests from the coordinator only, and of them
only those that a job needs; the coordinator passes nothing on between other parties, and nobody speaks for another.
"""

from functools import cache
from typing import Any, Literal
from uuid import UUID

from nvflare.fuel.f3.cellnet.core_cell import CoreCell, make_reply
from nvflare.fuel.f3.cellnet.defs import CellChannel, CellChannelTopic, MessageHeaderKey, MessagePropKey, ReturnCode
from nvflare.fuel.f3.message import Message
from nvflare.fuel.f3.streaming.stream_const import (
    STREAM_ACK_TOPIC,
    STREAM_CHANNEL,
    STREAM_ERROR_TOPIC,
    StreamHeaderKey,
)
from nvflare.fuel.utils.admin_name_utils import is_valid_admin_client_name
from nvflare.fuel.utils.log_utils import get_obj_logger

Kind = Literal["coordinator", "coordinator's job", "hospital", "hospital's job", "administrator"]
Asked = tuple[str, str]  # FLARE's channel and topic; "*" is any topic

SERVER = "server"  # what FLARE calls the coordinator
GOODBYE = (CellChannel.CELLNET, CellChannelTopic.Bye)
ANSWER = (CellChannel.RETURN_ONLY, "*")  # to a streamed request
LOGIN = {(CellChannel.SERVER_MAIN, topic) for topic in (CellChannelTopic.Challenge, CellChannelTopic.Register)}
SIGNS_OF_LIFE = {
    (CellChannel.SERVER_MAIN, topic)
    for topic in (CellChannelTopic.HEART_BEAT, CellChannelTopic.REPORT_JOB_FAILURE, CellChannelTopic.Quit)
}
BETWEEN_JOBS = (("hospital's job", "coordinator's job"), ("coordinator's job", "hospital's job"))
RECEIPTS = {(STREAM_CHANNEL, STREAM_ACK_TOPIC), (STREAM_CHANNEL, STREAM_ERROR_TOPIC)}
ALLOWED: dict[tuple[Kind | None, Kind | None], set[Asked]] = {
    ("hospital", "coordinator"): LOGIN | SIGNS_OF_LIFE | {GOODBYE},
    ("coordinator", "hospital"): {(CellChannel.CLIENT_MAIN, "admin"), GOODBYE},  # what is in it, see launch.NEEDED
    ("hospital's job", "coordinator"): {GOODBYE},
    ("coordinator", "hospital's job"): {GOODBYE},
    ("hospital's job", "coordinator's job"): {
        (CellChannel.SERVER_COMMAND, "get_task"),
        (CellChannel.SERVER_COMMAND, "submit_update"),
        (CellChannel.AUX_COMMUNICATION, "__sync_runner__"),
        (CellChannel.AUX_COMMUNICATION, "__task_check__"),
        (CellChannel.AUX_COMMUNICATION, "__job_heartbeat__"),
    },
    ("coordinator's job", "hospital's job"): {(CellChannel.AUX_COMMUNICATION, "__end_run__"), ANSWER},
    ("administrator", "coordinator"): LOGIN
    | {
        (CellChannel.HCI, "command"),  # the coordinator looks up the administrator's role itself
        (CellChannel.AUX_COMMUNICATION, "ObjectStreamer.Request"),  # a job on its way
        (CellChannel.AUX_COMMUNICATION, "ObjectStreamer.Abort"),
        GOODBYE,
    },
    ("coordinator", "administrator"): {(CellChannel.HCI, "SESSION_EXPIRED"), GOODBYE, ANSWER},
}


def why_refused(me: str, neighbour: str, origin: str, destination: str, asked: Asked) -> str:
    """Why a request is refused, "" if it is not.

    `neighbour` is who delivered it, as its certificate says; `origin` is who asks, as the message says.
    """
    if family(neighbour) not in (family(origin), family(me)):
        return f"{neighbour} speaks for {origin}"
    if family(origin) == family(destination) == family(me):
        return ""  # a party's own processes
    kinds = kind_of(origin), kind_of(destination)
    allowed = ALLOWED.get(kinds)
    if allowed is None:
        return f"{origin} may ask nothing of {destination}"
    if kinds in BETWEEN_JOBS and origin.split(".")[1] != destination.split(".")[1]:
        return f"{origin} and {destination} are not of one job"
    channel, topic = asked
    if asked in allowed | RECEIPTS or (channel, "*") in allowed:
        return ""
    return f"{origin} may not ask {destination} for {topic} of {channel}"


def family(name: str) -> str:
    """A party's processes are named after it: `north` and, for a job, `north.<job>`."""
    return name.partition(".")[0]


def kind_of(name: str) -> Kind | None:
    party, _, job = name.partition(".")
    if job and not is_uuid(job):
        return None
    if party == SERVER:
        return "coordinator's job" if job else "coordinator"
    if is_valid_admin_client_name(party):
        return None if job else "administrator"
    return "hospital's job" if job else "hospital"


def is_uuid(text: object) -> bool:
    """FLARE names jobs by UUID; anything else could be the name of a folder in the kit."""
    try:
        return isinstance(text, str) and str(UUID(text)) == text
    except ValueError:
        return False


@cache
def install() -> None:
    """Guard every connection (FLARE calls it a cell) that this process opens from now on."""
    make = CoreCell.__init__

    def make_guarded(cell: CoreCell, *arguments: Any, **options: Any) -> None:
        make(cell, *arguments, **options)
        cell.set_message_interceptor(at_the_door, cell)

    CoreCell.__init__ = make_guarded


def at_the_door(request: Message, cell: CoreCell) -> Message | None:
    """FLARE's interceptor: None lets the request pass; only then is it forwarded or decoded."""
    header, endpoint = request.get_header, request.get_prop(MessagePropKey.ENDPOINT)
    origin, destination = str(header(MessageHeaderKey.ORIGIN)), str(header(MessageHeaderKey.DESTINATION))
    why = why_refused(cell.get_fqcn(), endpoint.name, origin, destination, asked_in(request))
    if not why:
        return None
    get_obj_logger(cell).warning(f"refused at the door: {why!r}")
    return make_reply(ReturnCode.AUTHENTICATION_ERROR, error="refused")


def asked_in(request: Message) -> Asked:
    """A streamed request names its purpose inside; the channel of the stream says nothing about it."""
    channel, topic = (str(request.get_header(key)) for key in (MessageHeaderKey.CHANNEL, MessageHeaderKey.TOPIC))
    inner = request.get_header(StreamHeaderKey.CHANNEL)
    if channel == STREAM_CHANNEL and (channel, topic) not in RECEIPTS and inner is not None:
        return str(inner), str(request.get_header(StreamHeaderKey.TOPIC))
    return channel, topic
