"""Server fine-tuning: FedAvg, then a few steps on the public set at the coordinator; sites never receive it."""

from typing import ClassVar

from pydantic import Field

from fedpdc_med.methods.parts import Finetuning, Method


class ServerFinetune(Method):
    """FedAvg, and after averaging some epochs of plain cross-entropy on the `correction` split."""

    name: ClassVar[str] = "server-finetune"
    server_epochs: int = Field(default=1, ge=1)
    server_learning_rate: float = Field(default=0.01, gt=0)

    @property
    def finetuning(self) -> Finetuning:
        return Finetuning(self.server_epochs, self.server_learning_rate)
