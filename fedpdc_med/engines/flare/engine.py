"""The coordinator's engine: sends assignments, and collects answers until the round closes."""

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from safetensors.torch import load_file

from fedpdc_med.engines.flare.messages import Answer, BadMessage, largest, packed, packed_films, read_answer
from fedpdc_med.engines.local import CoordinatorHere
from fedpdc_med.engines.worker import AtCoordinator, Bench
from fedpdc_med.federation.data import CoordinatorData
from fedpdc_med.federation.protocol import Assignment, Failure, Update, answer_file, extra_file
from fedpdc_med.methods import method_of
from fedpdc_med.runs.plan import Plan


@dataclass(frozen=True)
class Reply:
    """From a site, to the assignment of a round: what it said, or why it says nothing."""

    site: str
    round: int  # as the transport knows it, not as the answer says
    content: dict[str, Any] | None
    trouble: str = ""


class Transport(Protocol):
    """Carries messages to sites and back; the only part that depends on FLARE."""

    def send(self, site: str, message: dict[str, Any], seconds: float) -> None: ...

    def next_reply(self, seconds: float) -> Reply | None:
        """The next answer, or None if none arrives in that time."""
        ...

    def cancel(self, site: str) -> None: ...

    def last_heard(self, site: str) -> float:
        """When this site last asked for work (time.monotonic), or minus infinity."""
        ...


class FlareEngine(CoordinatorHere):
    """Sites at hospitals train; what the coordinator computes itself runs in this process."""

    def __init__(
        self,
        plan: Plan,
        data: CoordinatorData,
        transport: Transport,
        *,
        deadline: float,
        min_responses: int | None,
        device: str,
    ) -> None:
        bench = Bench(plan, device)
        super().__init__(AtCoordinator(bench, data))
        self.plan, self.data, self.transport = plan, data, transport
        self.deadline, self.min_responses = deadline, min_responses
        self.sends_correction = method_of(plan.method).parts().public.at_sites != "no"
        self.most_bytes = largest(bench.model.state_dict())
        self.away: dict[str, tuple[float, str]] = {}  # sites that did not answer: since when, and why
        self.has_correction: set[str] = set()
        self.counts: dict[str, dict[str, int]] = {}  # training films by class, as each site says
        self.training_seconds: dict[str, float] = {}

    def missing(self, sites: Iterable[str]) -> None:
        """These sites are absent when the job starts; a site that asks for work later is present."""
        self.away |= {site: (time.monotonic(), "not connected when the job started") for site in sites}

    def train(self, assignments: Sequence[Assignment], answers: Path) -> Iterator[Update | Failure]:
        sent, skipped = {}, []
        # The same for all. Repacked, because a checkpoint's file also contains the scores of the other sites.
        model = packed(load_file(assignments[0].model))
        for assignment in assignments:
            if self._is_away(assignment.site):
                _, why = self.away[assignment.site]
                skipped.append(Failure(assignment.site, f"still away ({why})"))
                continue
            self.transport.send(assignment.site, self._message(assignment, model), self.deadline)
            sent[assignment.site] = assignment
        yield from skipped
        yield from self._collected(sent, answers)

    def _collected(self, waiting: dict[str, Assignment], answers: Path) -> Iterator[Update | Failure]:
        """Answers, until all or enough have arrived, or time is up."""
        closes, usable, asked = time.monotonic() + self.deadline, 0, len(waiting)
        min_responses = min(self.min_responses or asked, asked)
        while waiting and usable < min_responses:
            reply = self.transport.next_reply(closes - time.monotonic())
            if reply is None:
                break
            if reply.site not in waiting or reply.round != waiting[reply.site].round:
                continue  # it came as an earlier round closed without it
            assignment = waiting.pop(reply.site)
            outcome = self._outcome(assignment, reply, answers)
            usable += isinstance(outcome, Update)
            yield outcome
        for site in waiting:
            self.transport.cancel(site)
            why = f"no answer within {self.deadline:g} s"
            if usable >= min_responses:
                why = f"the round closed with the first {usable} of {asked} sites"
            self.away[site] = (time.monotonic(), why)
            yield Failure(site, why)

    def _is_away(self, site: str) -> bool:
        """A site that did not answer is given no assignment until it asks for work again."""
        if site in self.away and self.transport.last_heard(site) > self.away[site][0]:
            del self.away[site]
        return site in self.away

    def _message(self, assignment: Assignment, model: bytes) -> dict[str, Any]:
        correction = None
        if self.sends_correction and assignment.site not in self.has_correction:
            assert self.data.correction is not None, "check() has seen to it"
            correction = packed_films(self.data.correction)
        return {
            "round": assignment.round,
            "score": assignment.score,
            "own_round": round_of(assignment.kept),
            "model": model,
            "memory": packed(load_file(assignment.broadcast)) if assignment.broadcast else None,
            "correction": correction,
        }

    def _outcome(self, assignment: Assignment, reply: Reply, answers: Path) -> Update | Failure:
        if reply.content is None:
            return Failure(reply.site, reply.trouble)
        try:
            answer = read_answer(reply.content, self.plan.classes, self.most_bytes)
            check_sender(answer, assignment)
        except BadMessage as problem:
            return Failure(reply.site, str(problem), "rejected")
        self.has_correction.add(reply.site)
        self.counts[reply.site] = {
            name.removeprefix("films:"): int(value) for name, value in answer.numbers.items() if ":" in name
        }
        self.training_seconds[reply.site] = answer.numbers.get("seconds", 0.0)
        file = answer_file(answers, assignment)
        file.write_bytes(answer.state)
        extra = None
        if answer.extra is not None:
            extra = extra_file(file)
            extra.write_bytes(answer.extra)
        numbers = answer.numbers
        return Update(reply.site, file, int(numbers["films"]), numbers["loss"], numbers.get("epsilon"), extra)


def check_sender(answer: Answer, assignment: Assignment) -> None:
    """The certificate shows who sent an answer; one in another's name or for another round is refused."""
    if answer.site != assignment.site:
        raise BadMessage("its answer has another site's name")
    if answer.round != assignment.round:
        raise BadMessage(f"its answer is for round {answer.round}")


def round_of(model: Path | None) -> int:
    """The round in a kept model's file name; 0 if there is none."""
    return int(model.name.split(".round")[-1].split(".")[0]) if model else 0
