"""The coordinator, round by round."""

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from fedpdc_med.common.errors import WorkFailed
from fedpdc_med.federation.checkpoint import begin_checkpoint, commit, finish, forget_updates, read_progress, roll_back
from fedpdc_med.federation.data import CoordinatorData, initial_model
from fedpdc_med.federation.protocol import Assignment, Engine, Failure, Update, kept_file, seed_for
from fedpdc_med.federation.scoring import Score, score
from fedpdc_med.methods import method_of
from fedpdc_med.methods.aggregation import largest_number, problem_with
from fedpdc_med.methods.server import Outcome, ScoredUpdate, ServerRound, State, Weights
from fedpdc_med.runs.directory import Run
from fedpdc_med.runs.plan import Plan
from fedpdc_med.runs.predictions import GLOBAL
from fedpdc_med.runs.schema import Progress, Round, SiteRound

SPOILS = "its model has the largest numbers, and with it the averaged model's predictions are not finite"


class NotFinite(WorkFailed):
    """The averaged model's predictions are not finite."""


@dataclass
class OpenRound:
    """The state of a round while it runs."""

    t: int
    started: float
    sampled: list[str]
    sites: dict[str, SiteRound]  # for the record
    updates: dict[str, Update] = field(default_factory=dict)  # the usable ones
    predicting: dict[str, Callable[[], np.ndarray]] = field(default_factory=dict)
    scores: dict[str, Score] = field(default_factory=dict)

    def leave_out(self, site: str, reason: str, status: Literal["failed", "rejected"] = "rejected") -> None:
        self.sites[site] = SiteRound(status=status, reason=reason)
        self.updates.pop(site, None)
        self.scores.pop(site, None)


@dataclass(frozen=True)
class Evaluation:
    """The performance of a round's global model."""

    reported: Score
    worst: float | None
    on_weighting: float  # P


class Coordinator:
    def __init__(self, plan: Plan, data: CoordinatorData, engine: Engine, run: Run) -> None:
        self.plan, self.data, self.engine, self.run = plan, data, engine, run
        self.parts = method_of(plan.method).parts()
        model = initial_model(plan)
        self.expected: State = model.state_dict()
        self.parameters = frozenset(name for name, _ in model.named_parameters())
        progress = read_progress(run)
        if progress is None:
            begin_checkpoint(run, self.expected, Progress())
            commit(run, record=None)
        self.progress = progress or Progress()
        roll_back(run, self.progress)

    def run_round(self) -> Round:
        """Algorithm 2's server loop, once."""
        r, assignments = self.assign()
        self.check(r, self.engine.train(assignments, self.run.site_models))
        self.score(r)
        may_leave_out = (len(r.updates) - 1) // 2  # a majority must remain
        while True:
            weights = self.weigh(r)
            progress, note = self.aggregate(r, weights)
            try:
                evaluation = self.evaluate(r)
            except NotFinite:  # each model is finite by itself, and one of them must not end the run
                if not may_leave_out:
                    raise
                may_leave_out -= 1
                r.leave_out(max(r.updates.values(), key=lambda one: largest_number(load_file(one.model))).site, SPOILS)
                continue
            return self.commit(r, progress, weights, evaluation, [text for text in (weights.note, note) if text])

    def assign(self) -> tuple[OpenRound, list[Assignment]]:
        """For each sampled site: w_t, and its p_i of the previous round."""
        t = self.progress.round + 1
        sampled = sample_sites(list(self.data.sites), self.plan.tau, self.plan.seed, t)
        sites = {name: SiteRound(status="absent", reason="not sampled in this round") for name in self.data.sites}
        return OpenRound(t, time.perf_counter(), sampled, sites), [self._assignment(name, t) for name in sampled]

    def check(self, r: OpenRound, answers: Iterable[Update | Failure]) -> None:
        """Start predicting with each usable update at once, while other sites still train."""
        for answer in answers:
            problem, status = self._problem(answer)
            if isinstance(answer, Failure) or problem:
                r.leave_out(answer.site, problem or "", status)
                continue
            r.updates[answer.site] = answer
            r.predicting[answer.site] = self.engine.predict(answer.model, "weighting")
        r.updates = {
            name: r.updates[name] for name in r.sampled if name in r.updates
        }  # in a fixed order, not that of the answers

    def score(self, r: OpenRound) -> None:
        """p_i of every update, on the weighting films."""
        for name in list(r.updates):
            probabilities = r.predicting[name]()
            if np.isfinite(probabilities).all():
                r.scores[name] = self._score("weighting", probabilities)
            else:  # finite weights can still give such predictions, and would spoil the average
                r.leave_out(name, "its model's predictions are not finite")
        if not r.updates:
            reasons = "; ".join(sorted({r.sites[name].reason for name in r.sampled}))
            raise WorkFailed(
                f"round {r.t}: none of the {len(r.sampled)} sampled sites returned a usable update ({reasons}). Rounds "
                f"up to {r.t - 1} are saved. If the loss is not finite, lower the learning rate or the strength"
            )

    def weigh(self, r: OpenRound) -> Weights:
        if self.parts.trains == "alone":
            return Weights([0.0] * len(r.updates))
        return self.parts.weighting(self._server_round(r))

    def aggregate(self, r: OpenRound, weights: Weights) -> tuple[Progress, str]:
        """The next checkpoint, not yet in place, and a note for the record of the round."""
        server = self._server_round(r)
        if self.parts.trains == "alone":
            outcome = Outcome(server.received())
        else:
            outcome = Outcome(self.parts.aggregate(server.updates, weights.values))
            if self.parts.server is not None:
                outcome = self.parts.server(server, outcome.state)
        memory = None
        if outcome.memory:
            memory = f"server_state{r.t}.safetensors"  # cannot be a site's file: those have .round in their names
            save_file(outcome.memory, self.run.site_models / memory)
        scores = {name: one.accuracy for name, one in r.scores.items()}
        progress = Progress(round=r.t, scores=scores, kept=self._kept(r), server_state=memory)
        begin_checkpoint(self.run, outcome.state, progress)
        return progress, outcome.note

    def evaluate(self, r: OpenRound) -> Evaluation:
        """The global model on the reported films, its worst class there, and its accuracy P on the weighting films.

        If nothing is shared there is no global model, and the means over the sites' own models are used instead.
        """
        models = [self.run.next_checkpoint_file]
        if self.parts.trains == "alone":
            models = [update.model for update in r.updates.values()]
        shown = self.data.reported
        pending = [(self.engine.predict(model, shown), self.engine.predict(model, "weighting")) for model in models]
        answers = [(reported(), weighting()) for reported, weighting in pending]
        if not all(np.isfinite(one).all() for pair in answers for one in pair):
            raise NotFinite(
                f"the predictions of the model after round {r.t} are not finite; the rounds before it are saved. "
                "Lower the learning rate, the strength or the noise"
            )
        reported = [self._score(shown, probabilities) for probabilities, _ in answers]
        on_weighting = [self._score("weighting", weighting).accuracy for _, weighting in answers]
        worst = [one.worst for one in reported if one.worst is not None]
        return Evaluation(mean_score(reported), float(np.mean(worst)) if worst else None, float(np.mean(on_weighting)))

    def commit(
        self, r: OpenRound, progress: Progress, weights: Weights, evaluation: Evaluation, notes: list[str]
    ) -> Round:
        """Record the round, and put its checkpoint in place."""
        for (name, update), weight in zip(r.updates.items(), weights.values, strict=True):
            of_site = r.scores[name]
            r.sites[name] = SiteRound(
                status="ok",
                films=update.films,
                loss=update.loss,
                score=of_site.accuracy,
                recall=of_site.recall,
                weight=weight,
                dissimilarity=dissimilarity(evaluation.on_weighting, of_site.accuracy),
            )
            if update.epsilon is not None:
                r.sites[name].epsilon = update.epsilon
        record = Round(
            round=r.t,
            seconds=round(time.perf_counter() - r.started, 3),
            bytes=self._bytes_sent(r),
            accuracy=evaluation.reported.accuracy,
            recall=evaluation.reported.recall,
            worst_recall=evaluation.worst,
            score=evaluation.on_weighting,
            sites=r.sites,
        )
        if notes:
            record.note = "; ".join(notes)
        commit(self.run, record)
        self.progress = progress
        forget_updates(self.run, progress)
        return record

    def _assignment(self, site: str, t: int) -> Assignment:
        folder, kept, memory = self.run.site_models, self.progress.kept.get(site), self.progress.server_state
        own = folder / kept if kept else None
        start = own if own is not None and self.parts.trains == "alone" else self.run.checkpoint_file
        broadcast = folder / memory if memory and self.parts.sends_memory else None
        return Assignment(site, t, self.progress.scores.get(site, self.parts.unscored), start, own, broadcast)

    def _problem(self, answer: Update | Failure) -> tuple[str | None, Literal["failed", "rejected"]]:
        if isinstance(answer, Failure):
            return answer.reason, answer.status
        if not math.isfinite(answer.loss):
            return "its training loss is not finite", "rejected"
        try:
            problem = problem_with(load_file(answer.model), self.expected)
            if self.parts.site_state is not None and not problem:
                extra = load_file(answer.extra) if answer.extra else {}
                problem = problem_with(extra, {name: self.expected[name] for name in self.parameters})
            return problem, "rejected"
        except (OSError, SafetensorError):
            return "its model file cannot be read", "rejected"

    def _score(self, films: str, probabilities: np.ndarray) -> Score:
        return score(self.data.films_of(films).labels.numpy(), probabilities, self.plan.classes)

    def _server_round(self, r: OpenRound) -> ServerRound:
        memory = self.progress.server_state
        return ServerRound(
            round=r.t,
            rounds=self.plan.rounds,
            sites=len(self.data.sites),
            updates=[
                ScoredUpdate(name, one.model, one.films, r.scores[name].accuracy, r.scores[name].recall, one.extra)
                for name, one in r.updates.items()
            ],
            parameters=self.parameters,
            global_model=self.run.checkpoint_file,
            memory_file=self.run.site_models / memory if memory else None,
            folder=self.run.site_models,
            run_at_coordinator=self.engine.run_at_coordinator,
        )

    def _kept(self, r: OpenRound) -> dict[str, str]:
        if self.parts.keeps == "nothing":
            return {}
        files = {
            name: one.model if self.parts.keeps == "model" else kept_file(one.model) for name, one in r.updates.items()
        }
        return {**self.progress.kept, **{name: file.name for name, file in files.items()}}

    def _bytes_sent(self, r: OpenRound) -> int:
        """Models to the sampled sites and back, what the method sends in addition, and the `correction` films to sites
        that do not have them yet.

        Nothing is sent if nothing is shared, or if all films are in one place.
        """
        parts, correction = self.parts, self.data.correction
        if parts.trains != "sites":
            return 0
        model = sum(tensor.nbytes for tensor in self.expected.values())
        trained = sum(self.expected[name].nbytes for name in self.parameters)
        total = (len(r.sampled) + len(r.updates)) * model
        total += len(r.sampled) * trained * bool(parts.sends_memory and self.progress.server_state)
        total += len(r.updates) * trained * bool(parts.site_state)
        if parts.public.at_sites != "no" and correction is not None:
            everyone, tau, seed = list(self.data.sites), self.plan.tau, self.plan.seed
            had = {name for earlier in range(1, r.t) for name in sample_sites(everyone, tau, seed, earlier)}
            total += len(set(r.sampled) - had) * correction.images.nbytes
        return total

    def finish(self) -> None:
        """Write the final model and all predictions."""
        finish(self.run, self.predictions(), self.final_models() if self.parts.trains == "alone" else None)

    def final_models(self) -> dict[str, Path]:
        if self.parts.trains != "alone":
            return {GLOBAL: self.run.checkpoint_file}
        return {site: self.run.site_models / name for site, name in self.progress.kept.items()}

    def predictions(self) -> pd.DataFrame:
        """Predictions for every evaluation set by the final model, or by each site's own if nothing is shared."""
        pending = [
            (model, held, self.engine.predict(file, name))
            for model, file in self.final_models().items()
            for name, held in self.data.evaluation.items()
        ]
        frames = []
        for model, held, collect in pending:
            frame = held.about.copy()
            frame.insert(0, "model", model)
            probabilities = collect()
            for k, name in enumerate(self.plan.classes):
                frame[f"p:{name}"] = probabilities[:, k]
            frames.append(frame)
        return pd.concat(frames, ignore_index=True)


def sample_sites(sites: list[str], tau: float, seed: int, t: int) -> list[str]:
    """max(tau * N, 1) sites of round t, in the sites' own order."""
    count = max(round(tau * len(sites)), 1)
    if count >= len(sites):
        return sites
    rng = np.random.default_rng(seed_for(seed, "sample", t))
    return [sites[i] for i in sorted(rng.choice(len(sites), count, replace=False))]


def dissimilarity(of_global: float, of_site: float) -> float | None:
    """Definition 1: B = P / p_i; None where p_i is zero."""
    return of_global / of_site if of_site else None


def mean_score(scores: Iterable[Score]) -> Score:
    scores = list(scores)
    if len(scores) == 1:
        return scores[0]
    recall: dict[str, float | None] = {}
    for name in scores[0].recall:
        known = [value for one in scores if (value := one.recall[name]) is not None]
        recall[name] = float(np.mean(known)) if known else None
    return replace(scores[0], accuracy=float(np.mean([one.accuracy for one in scores])), recall=recall)
