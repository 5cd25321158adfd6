"""Server fine-tuning: FedAvg, then a few epochs on the public set at the coordinator; sites never receive the set."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from pydantic import Field
from safetensors.torch import load_file, save_file

from fedpdc_med.methods.aggregation import problem_with
from fedpdc_med.methods.parts import Method, Parts, PublicFilms
from fedpdc_med.methods.server import CoordinatorWork, Outcome, ServerRound, State


class ServerFinetune(Method):
    """FedAvg, followed by some epochs of plain cross-entropy on the `correction` split after averaging."""

    name: ClassVar[str] = "server-finetune"
    costs: ClassVar[tuple[str, ...]] = ("server_epochs",)
    server_epochs: int = Field(default=1, ge=1)
    server_learning_rate: float = Field(default=0.01, gt=0)

    def parts(self) -> Parts:
        tune = FinetuneStep(self.server_epochs, self.server_learning_rate)
        return Parts(server=tune, public=PublicFilms(at_coordinator=True))


@dataclass(frozen=True)
class FinetuneStep:
    """If fine-tuning makes the average unusable, the average is kept, and the record of the round says so."""

    epochs: int
    learning_rate: float

    def __call__(self, r: ServerRound, aggregated: State) -> Outcome:
        average, answer = r.folder / "average.safetensors", r.folder / "finetuned.safetensors"
        save_file(aggregated, average)
        r.run_at_coordinator(Finetune(average, answer, self.epochs, self.learning_rate, r.round))
        tuned = load_file(answer)
        problem = problem_with(tuned, aggregated)
        if problem:
            return Outcome(aggregated, note=f"the fine-tuned model is not used: {problem}")
        return Outcome(tuned)


@dataclass(frozen=True)
class Finetune:
    start: Path
    answer: Path
    epochs: int
    learning_rate: float
    round: int

    def __call__(self, work: CoordinatorWork) -> None:
        seed = work.seed_for("finetune", self.round)
        work.train_on_correction(self.start, self.answer, self.epochs, self.learning_rate, seed)
