"""FedAvg: McMahan et al., Communication-Efficient Learning of Deep Networks from Decentralized Data, 2017."""

from typing import ClassVar

from fedpdc_med.methods.parts import Method


class FedAvg(Method):
    """Cross-entropy at the sites, weights by number of films."""

    name: ClassVar[str] = "fedavg"
