"""What a dishonest party asks of a hospital's process, in FLARE's own words."""

from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path

CLAIM = "claims"
PLAIN: dict[str, str] = {}
AUTHORISED = {  # as FLARE's server writes it, with the role that may do everything
    "admin_command": "x",
    "require_authz": "true",
    "_userName": "lead@example.org",
    "_userOrg": "consortium",
    "_userRole": "super",
}
DEPLOY = ("train.deploy", "", {"job_id": "local", "job_meta": {"job_id": "local"}, "app_name": "app"})
COMMANDS = [  # topic, body, headers
    ("sys.shell", "cat local/hospital.py", {}),
    ("sys.shell", "ls -R", {}),
    ("info.show_errors", "", {"job_id": "local"}),
    ("info.show_stats", "", {"job_id": "local"}),
    ("sys.info", "", {}),
    ("sys.report_env", "", {}),
    ("sys.configure_site_log", "DEBUG", {}),
    ("train.configure_job_log", "DEBUG", {"job_id": "local"}),
    ("train.delete_run", "", {"job_id": "local"}),
    ("train.delete_run", "", {"job_id": "00000000-0000-4000-8000-000000000000"}),
    ("train.abort", "", {"job_id": "../local"}),
    ("train.restart", "", {}),
    ("train.shutdown", "", {}),
    DEPLOY,
]
NETWORK = ["config_vars", "process_info", "comm_config", "peers", "stop_cell", "stop"]  # of FLARE's network agent


def everything(core_cell, target, origin, app):
    """Each request's answer as text, by what was asked; `origin` may be another's name."""
    from nvflare.private.admin_defs import Message

    for channel in ("admin", "_net_manager", "client_command"):
        core_cell.add_outgoing_request_filter(channel, "*", claim)
    requests = {}
    for (topic, body, headers), authorised in product(COMMANDS, (PLAIN, AUTHORISED)):
        asked = Message(topic, Path(app).read_bytes() if topic == "train.deploy" else body)
        asked.headers.update({**headers, **authorised})
        label = f"{topic} {headers.get('job_id', body)} {'with' if authorised else 'without'} authorisation"
        requests[label] = ("admin", "admin", asked)
    for topic in NETWORK:
        requests[f"network {topic}"] = ("_net_manager", topic, None)
    for topic in ("get_errors", "show_errors", "configure_job_log", "abort"):
        requests[f"job's {topic}"] = ("client_command", topic, "DEBUG")
    with ThreadPoolExecutor(len(requests)) as pool:
        answers = {label: pool.submit(ask, core_cell, target, origin, *one) for label, one in requests.items()}
    return {label: answer.result() for label, answer in answers.items()}


def ask(core_cell, target, origin, channel, topic, payload):
    from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey
    from nvflare.fuel.f3.message import Message

    headers = {CLAIM: origin} if origin != core_cell.get_fqcn() else {}
    answer = core_cell.send_request(channel, topic, target, Message(headers, payload), timeout=5.0)
    return f"{answer.get_header(MessageHeaderKey.RETURN_CODE)}: {getattr(answer.payload, 'body', answer.payload)}"


def claim(message):
    """Another's name in place of one's own, as late as possible: FLARE has written the true one by now."""
    from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey

    if message.get_header(CLAIM):
        message.set_header(MessageHeaderKey.ORIGIN, message.get_header(CLAIM))
