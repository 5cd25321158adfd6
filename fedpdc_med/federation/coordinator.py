"""The coordinator: algorithm 2, round by round."""

import math
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from safetensors import SafetensorError
from safetensors.torch import load_file

from fedpdc_med.common.errors import WorkFailed
from fedpdc_med.federation.data import Federation
from fedpdc_med.federation.engine import Engine
from fedpdc_med.federation.protocol import Assignment, Failure, State, Update, seed_for
from fedpdc_med.federation.scoring import Score, score
from fedpdc_med.methods import Scored
from fedpdc_med.methods.aggregation import largest_number, problem_with, weighted_average
from fedpdc_med.methods.weighting import by_films
from fedpdc_med.runs.directory import Progress, Run

SPOILS = "with its model, whose numbers are the largest, the average gives answers that are not finite"


class NotFinite(WorkFailed):
    """The average gives answers that are not finite."""


@dataclass(frozen=True)
class Average:
    """What the usable updates of a round come to."""

    weights: list[float]
    notes: list[str]
    judged: Score
    worst: float | None
    on_weighting: float  # P


class Coordinator:
    def __init__(self, federation: Federation, engine: Engine, run: Run) -> None:
        self.federation, self.engine, self.run = federation, engine, run
        self.expected: State = federation.initial_model().state_dict()
        progress = run.progress()
        if progress is None:
            run.begin_checkpoint(self.expected, Progress())
            run.commit(record=None)
        self.progress = progress or Progress()
        run.roll_back(self.progress)

    def run_round(self) -> dict[str, Any]:
        """Algorithm 2's server loop, once: assign, check, score, weigh, average, evaluate, record."""
        started, federation, t = time.perf_counter(), self.federation, self.progress.round + 1
        sampled = sample_sites(list(federation.sites), federation.tau, federation.seed, t)
        sites: dict[str, dict[str, Any]] = {
            name: {"status": "absent", "reason": "not sampled in this round"} for name in federation.sites
        }
        updates, scoring = {}, {}
        for answer in self.engine.train([self._assignment(name, t) for name in sampled], self.run.site_models):
            problem, status = self._problem(answer)
            if isinstance(answer, Failure) or problem:
                sites[answer.site] = {"status": status, "reason": problem}
                continue
            updates[answer.site] = answer
            scoring[answer.site] = self.engine.predict(answer.model, "weighting")
        scores: dict[str, Score] = {}
        for name in [name for name in sampled if name in updates]:  # a fixed order, whoever answered first
            answers = scoring[name]()
            if np.isfinite(answers).all():
                scores[name] = self._score("weighting", answers)
            else:  # finite weights can still give answers that are not, and would spoil the average
                sites[name] = {"status": "rejected", "reason": "its model's answers are not finite"}
        usable = [updates[name] for name in scores]
        if not usable:
            reasons = "; ".join(sorted({sites[name]["reason"] for name in sampled}))
            raise WorkFailed(
                f"round {t} got no usable update from its {len(sampled)} sites ({reasons}); rounds up to "
                f"{t - 1} are kept. A loss that is not finite calls for a lower learning rate or strength"
            )

        average, spoilers = self._average_without_spoilers(usable, scores, t)
        for name in spoilers:
            sites[name] = {"status": "rejected", "reason": SPOILS}
        weights, notes = average.weights, average.notes
        judged, worst, of_global = average.judged, average.worst, average.on_weighting
        usable = [update for update in usable if update.site not in spoilers]

        for update, weight in zip(usable, weights, strict=True):
            of_site = scores[update.site]
            sites[update.site] = {
                "status": "ok",
                "films": update.films,
                "loss": update.loss,
                "score": of_site.accuracy,
                "recall": of_site.recall,
                "weight": weight,
                "dissimilarity": dissimilarity(of_global, of_site.accuracy),
            }
            if update.epsilon is not None:
                sites[update.site]["epsilon"] = update.epsilon
        record = {
            "round": t,
            "seconds": round(time.perf_counter() - started, 3),
            "bytes": self._bytes_sent(sampled, len(usable), t),
            "accuracy": judged.accuracy,
            "recall": judged.recall,
            "worst_recall": worst,
            "score": of_global,  # P: choices between settings look at this one, never at the accuracy
            "sites": sites,
        }
        if notes:
            record["note"] = "; ".join(notes)
        self.run.commit(record)
        self.run.forget_updates(self.progress)
        return record

    def _average_without_spoilers(
        self, usable: list[Update], scores: dict[str, Score], t: int
    ) -> tuple["Average", list[str]]:
        """The round's average; where it gives answers that are not finite, again without the model with the largest
        numbers, as long as most remain: each may be finite alone, and one of them must not end the run.
        """
        spoilers: list[str] = []
        for _ in range((len(usable) - 1) // 2):
            left = [update for update in usable if update.site not in spoilers]
            try:
                return self._average(left, scores, t), spoilers
            except NotFinite:
                spoilers.append(max(left, key=lambda update: largest_number(load_file(update.model))).site)
        left = [update for update in usable if update.site not in spoilers]
        return self._average(left, scores, t), spoilers

    def _average(self, usable: list[Update], scores: dict[str, Score], t: int) -> "Average":
        """Weigh and average these updates, and evaluate what comes of it: the next checkpoint, not yet in place."""
        scored = [Scored(one.site, one.films, scores[one.site].accuracy, scores[one.site].recall) for one in usable]
        weights, notes = self._weights(scored, usable, t)
        self.progress = Progress(t, {one.site: one.score for one in scored}, self._kept(usable))
        checkpoint = self.run.begin_checkpoint(self._next_state(usable, weights), self.progress)
        if self.federation.method.finetuning:
            notes += self._finetune(checkpoint, t)
        return Average(weights, notes, *self._evaluate(checkpoint, usable))

    def _assignment(self, site: str, t: int) -> Assignment:
        """p_i of the round before, or what the method takes for it where a site took no part in that round."""
        method, previous = self.federation.method, self.progress.kept.get(site)
        own = self.run.site_models / previous if previous else None
        start = self.run.checkpoint_file if method.shares or own is None else own
        return Assignment(site, t, self.progress.scores.get(site, method.unscored), start, own)

    def _problem(self, answer: Update | Failure) -> tuple[str | None, str]:
        if isinstance(answer, Failure):
            return answer.reason, answer.status
        if not math.isfinite(answer.loss):
            return "its training loss is not finite", "rejected"
        try:
            return problem_with(load_file(answer.model), self.expected), "rejected"
        except (OSError, SafetensorError):
            return "its model file cannot be read", "rejected"

    def _score(self, films: str, probabilities: np.ndarray) -> Score:
        return score(self.federation.films_of(films).labels.numpy(), probabilities, self.federation.classes)

    def _weights(self, scored: list[Scored], usable: list[Update], t: int) -> tuple[list[float], list[str]]:
        method, notes = self.federation.method, list[str]()
        if not method.shares:
            return [0.0] * len(scored), []
        weights = method.weights(scored)
        if weights is None:
            found = "the same" if any(one.score for one in scored) else "zero"
            weights = by_films([one.films for one in scored])
            notes = [f"every score is {found}: weights are by number of films"]
        if method.searches_weights:
            weights = self.engine.search_weights([update.model for update in usable], weights, t)
        return weights, notes

    def _kept(self, usable: list[Update]) -> dict[str, str]:
        if not self.federation.method.keeps_local_model:
            return {}
        return {**self.progress.kept, **{update.site: update.model.name for update in usable}}

    def _next_state(self, usable: list[Update], weights: list[float]) -> State:
        if not self.federation.method.shares:
            return load_file(self.run.checkpoint_file)
        return weighted_average((load_file(update.model) for update in usable), weights)

    def _finetune(self, checkpoint: Path, t: int) -> list[str]:
        """Train the average at the coordinator; one that this spoils stays as it was, and the round says so."""
        answer = self.run.site_models / "finetuned.safetensors"  # no site's: those are named by round
        self.engine.finetune(checkpoint, answer, t)
        state = load_file(answer)
        problem = problem_with(state, self.expected)
        if problem:
            return [f"the fine-tuned model is not used: {problem}"]
        self.run.begin_checkpoint(state, self.progress)
        return []

    def _bytes_sent(self, sampled: list[str], returned: int, t: int) -> int:
        """Models to the sampled sites and back, and the `correction` films to those that had none yet.

        Nothing travels where nothing is shared, nor where all films lie in one place.
        """
        federation, method = self.federation, self.federation.method
        if not method.shares or method.arrangement != "sites":
            return 0
        total = (len(sampled) + returned) * sum(tensor.nbytes for tensor in self.expected.values())
        if method.trains_on_reference and federation.correction is not None:
            everyone, tau, seed = list(federation.sites), federation.tau, federation.seed
            had = {name for earlier in range(1, t) for name in sample_sites(everyone, tau, seed, earlier)}
            total += len(set(sampled) - had) * federation.correction.images.nbytes
        return total

    def _evaluate(self, checkpoint: Path, usable: list[Update]) -> tuple[Score, float | None, float]:
        """The global model on the judging films, its worst class there, and its accuracy P on the weighting films.

        Where nothing is shared there is no global model, and the means over the sites' own models stand in.
        """
        models = [checkpoint] if self.federation.method.shares else [update.model for update in usable]
        judge = self.federation.judge
        pending = [(self.engine.predict(model, judge), self.engine.predict(model, "weighting")) for model in models]
        answers = [(judging(), weighting()) for judging, weighting in pending]
        if not all(np.isfinite(one).all() for pair in answers for one in pair):
            raise NotFinite(
                f"the model that round {self.progress.round} ends with gives answers that are not finite; the rounds "
                "before it are kept. This calls for a lower learning rate, strength or noise"
            )
        judged = [self._score(judge, judging) for judging, _ in answers]
        on_weighting = [self._score("weighting", weighting).accuracy for _, weighting in answers]
        worst = [one.worst for one in judged if one.worst is not None]
        return mean_score(judged), float(np.mean(worst)) if worst else None, float(np.mean(on_weighting))

    def predictions(self) -> pd.DataFrame:
        """Every reported set as seen by the final model, or by each site's own where nothing is shared."""
        models = {"global": self.run.checkpoint_file}
        if not self.federation.method.shares:
            models = {site: self.run.site_models / name for site, name in self.progress.kept.items()}
        pending = [
            (model, held, self.engine.predict(file, name))
            for model, file in models.items()
            for name, held in self.federation.reported.items()
        ]
        frames = []
        for model, held, collect in pending:
            frame = held.about.copy()
            frame.insert(0, "model", model)
            probabilities = collect()
            for k, name in enumerate(self.federation.classes):
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
