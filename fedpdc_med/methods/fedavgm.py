"""FedAvgM: Hsu, Qi and Brown, Measuring the Effects of Non-Identical Data Distribution, 2019."""

from typing import ClassVar

from pydantic import Field

from fedpdc_med.methods.parts import Method, Parts
from fedpdc_med.methods.server import Outcome, ServerRound, State


class FedAvgM(Method):
    """FedAvg with momentum at the server: v = momentum * v + (w_t - average)."""

    name: ClassVar[str] = "fedavgm"
    momentum: float = Field(default=0.9, ge=0, lt=1)
    server_learning_rate: float = Field(default=1.0, gt=0)

    def parts(self) -> Parts:
        return Parts(server=self.step)

    def step(self, r: ServerRound, aggregated: State) -> Outcome:
        """w_t - rate * v for trained parameters; statistics are averaged, because variances must stay positive."""
        received, memory = r.received(), r.memory()
        v = {name: received[name] - aggregated[name] for name in r.parameters}
        v = {name: change + self.momentum * memory[name] if memory else change for name, change in v.items()}
        moved = {name: received[name] - self.server_learning_rate * v[name] for name in v}
        return Outcome({**aggregated, **moved}, memory=v)
