"""The coordinator's rounds as a FLARE controller: the same `Coordinator`, with its messages sent by FLARE."""

import contextlib
import queue
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from nvflare.apis.client import Client
from nvflare.apis.controller_spec import ClientTask, Task
from nvflare.apis.event_type import EventType
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.impl.controller import Controller
from nvflare.apis.shareable import ReservedHeaderKey, Shareable
from nvflare.apis.signal import Signal

from fedpdc_med.common.errors import UserError, WorkFailed
from fedpdc_med.common.files import only_writer
from fedpdc_med.common.paths import checked_name, home
from fedpdc_med.engines.flare.coordinator_run import (
    check_own,
    data_for,
    record_counts,
    record_time,
    say_stopped,
)
from fedpdc_med.engines.flare.engine import FlareEngine, Reply
from fedpdc_med.engines.flare.messages import REFUSALS, TRAIN, sentence_of
from fedpdc_med.engines.worker import this_device
from fedpdc_med.federation.coordinator import Coordinator
from fedpdc_med.runs.directory import Run, read_run
from fedpdc_med.runs.plan import Plan

TROUBLE = {
    ReturnCode.TASK_RESULT_FILTER_ERROR: "blocked by the site's own privacy filter; see the site's log",
    ReturnCode.UNSAFE_JOB: "it refused the job as unsafe; see the site's log",
}
LOOK = 0.5  # seconds between checks of the abort signal


def reply_of(site: str, t: int, result: Shareable, plan: Plan) -> Reply:
    code = result.get_return_code()
    if code in REFUSALS:
        return Reply(site, t, None, sentence_of(code, plan))
    if code != ReturnCode.OK:
        return Reply(site, t, None, TROUBLE.get(code, f"its training failed ({code}); see the site's log"))
    return Reply(site, t, {name: value for name, value in result.items() if name != ReservedHeaderKey.HEADERS})


class FlareTransport:
    """Sends tasks to named sites, and collects their answers in a queue."""

    def __init__(self, controller: "Rounds", abort_signal: Signal, fl_ctx: FLContext) -> None:
        self.controller, self.abort_signal, self.fl_ctx = controller, abort_signal, fl_ctx
        self.plan = controller.plan
        self.replies: queue.Queue[Reply] = queue.Queue()
        self.tasks: dict[str, Task] = {}
        self.heard: dict[str, float] = {}

    def send(self, site: str, message: dict[str, Any], seconds: float) -> None:
        data = Shareable()
        data.update(message)
        received = partial(self._received, message["round"])
        task = Task(name=TRAIN, data=data, timeout=int(seconds) + 1, result_received_cb=received)
        self.tasks[site] = task
        self.controller.send(task, self.fl_ctx, targets=[site])

    def _received(self, t: int, client_task: ClientTask, fl_ctx: FLContext) -> None:
        self.replies.put(reply_of(client_task.client.name, t, client_task.result, self.plan))
        client_task.result = None  # FLARE keeps the task; it need not keep the model

    def next_reply(self, seconds: float) -> Reply | None:
        closes = time.monotonic() + seconds
        while (left := closes - time.monotonic()) > 0:
            if self.abort_signal.triggered:
                raise WorkFailed("the job was stopped")
            try:
                return self.replies.get(timeout=min(left, LOOK))
            except queue.Empty:
                continue
        return None

    def cancel(self, site: str) -> None:
        self.controller.cancel_task(self.tasks[site], fl_ctx=self.fl_ctx)

    def last_heard(self, site: str) -> float:
        return self.heard.get(site, float("-inf"))


class Rounds(Controller):
    """A few rounds, starting from the run's last checkpoint."""

    def __init__(
        self,
        plan: dict[str, Any],
        run: str,
        sites: list[str],
        rounds: int,
        deadline: float,
        min_responses: int | None = None,
    ) -> None:
        super().__init__(task_check_period=0.1)
        self.plan, self.run_name, self.sites = Plan(**plan), checked_name(run), sites
        self.rounds, self.deadline, self.min_responses = rounds, deadline, min_responses
        self.transport: FlareTransport | None = None

    def start_controller(self, fl_ctx: FLContext) -> None: ...

    def stop_controller(self, fl_ctx: FLContext) -> None: ...

    def process_result_of_unknown_task(
        self, client: Client, task_name: str, client_task_id: str, result: Shareable, fl_ctx: FLContext
    ) -> None:
        self.log_info(fl_ctx, f"an answer from {client.name} arrived after its round had closed")

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        if event_type == EventType.BEFORE_PROCESS_TASK_REQUEST and self.transport is not None:
            peer = fl_ctx.get_peer_context()
            if peer is not None:
                self.transport.heard[peer.get_identity_name()] = time.monotonic()

    def control_flow(self, abort_signal: Signal, fl_ctx: FLContext) -> None:
        run = Run(home() / "runs" / self.run_name)
        self.transport = FlareTransport(self, abort_signal, fl_ctx)
        try:
            with run_of(run.folder, self.plan):
                self._run_rounds(run, self.transport, fl_ctx)
        except (UserError, WorkFailed) as error:
            say_stopped(run, str(error))
            self.system_panic(str(error), fl_ctx)

    def _run_rounds(self, run: Run, transport: FlareTransport, fl_ctx: FLContext) -> None:
        data = data_for(run.config, self.plan, self.sites)
        engine = FlareEngine(
            self.plan,
            data,
            transport,
            deadline=self.deadline,
            min_responses=self.min_responses,
            device=this_device(),
        )
        there = {client.name for client in fl_ctx.get_engine().get_clients()}
        engine.missing(name for name in data.sites if name not in there)
        coordinator = Coordinator(self.plan, data, engine, run)
        last = min(coordinator.progress.round + self.rounds, self.plan.rounds)
        while coordinator.progress.round < last:
            record = coordinator.run_round()
            record_counts(run, engine.counts)
            record_time(run, record, engine.training_seconds)
            self.log_info(fl_ctx, f"round {record.round} is done")
        if coordinator.progress.round == self.plan.rounds:
            coordinator.finish()


@contextlib.contextmanager
def run_of(folder: Path, plan: Plan) -> Iterator[None]:
    """A job's own run, locked for this process; errors of the disk become one sentence."""
    try:
        run = read_run(folder)
        with only_writer(folder):
            check_own(run.config, plan)
            yield
    except OSError as error:
        advice = "free or repair the disk"
        if isinstance(error, PermissionError):
            advice = "its account must own $FEDPDC_HOME; use `fedpdc federation run` as that account (sudo -u fedpdc)"
        where = error.filename or folder
        raise WorkFailed(f"the coordinator cannot use {where}: {error.strerror or error}; {advice}") from error
