"""Starts FLARE's processes with doors.py in front of them: `python -m fedpdc_med.engines.flare.launch MODULE ...`."""

import os
import runpy
import sys
from typing import Any

from nvflare.app_common.job_launcher.client_process_launcher import ClientProcessJobLauncher
from nvflare.app_common.job_launcher.server_process_launcher import ServerProcessJobLauncher
from nvflare.private.admin_defs import Message, error_reply
from nvflare.private.defs import RequestHeader, TrainingTopic
from nvflare.private.fed.client.admin import RequestProcessor
from nvflare.private.fed.client.client_req_processors import ClientRequestProcessors

from fedpdc_med.engines.flare import doors

COORDINATOR = "nvflare.private.fed.app.server.server_train"
HOSPITAL = "nvflare.private.fed.app.client.client_train"
JOBS = ("nvflare.private.fed.app.server.runner_process", "nvflare.private.fed.app.client.worker_process")

# What a hospital does for the coordinator: all that a job needs. No shell, files, errors, deletion, restart or logs.
NEEDED = {
    TrainingTopic.CHECK_STATUS,
    TrainingTopic.GET_SCOPES,
    TrainingTopic.DEPLOY,
    TrainingTopic.CHECK_RESOURCE,
    TrainingTopic.CANCEL_RESOURCE,
    TrainingTopic.START_JOB,
    TrainingTopic.ABORT,
    TrainingTopic.NOTIFY_JOB_STATUS,
}


class OfAJob(RequestProcessor):
    """One of FLARE's processors; a job name that is not a UUID could be a folder of the kit, such as local/."""

    def __init__(self, processor: RequestProcessor) -> None:
        self.processor = processor

    def get_topics(self) -> list[str]:
        return [topic for topic in self.processor.get_topics() if topic in NEEDED]

    def process(self, req: Message, app_ctx: Any) -> Message | None:
        about = req.get_header(RequestHeader.JOB_META) or {}
        named = {req.get_header(RequestHeader.JOB_ID), about.get(RequestHeader.JOB_ID)}
        if not all(doors.is_uuid(job) for job in named if job is not None):
            return error_reply("refused")
        return self.processor.process(req, app_ctx)


def in_front_of(command: str) -> str:
    """FLARE's command for a job's process, changed to start through this module."""
    ours = f" -m {__spec__.name} "
    for module in JOBS:
        command = command.replace(f" -m {module} ", f"{ours}{module} ", 1)
    if ours not in command:
        raise RuntimeError("FLARE starts its jobs in a way that this version of fedpdc_med does not know")
    return command


class HospitalJobs(ClientProcessJobLauncher):
    def get_command(self, job_meta: Any, fl_ctx: Any) -> str:
        return in_front_of(super().get_command(job_meta, fl_ctx))


class CoordinatorJobs(ServerProcessJobLauncher):
    def get_command(self, job_meta: Any, fl_ctx: Any) -> str:
        return in_front_of(super().get_command(job_meta, fl_ctx))


def main() -> None:
    module = sys.argv[1]
    if module not in (COORDINATOR, HOSPITAL, *JOBS):
        sys.exit(f"{module} is not a process of a federation")
    os.umask(0o077)  # models, logs and job folders are readable by this account only
    doors.install()
    kept = [OfAJob(one) for one in ClientRequestProcessors.request_processors if NEEDED & {*one.get_topics()}]
    ClientRequestProcessors.request_processors = kept
    del sys.argv[1]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
