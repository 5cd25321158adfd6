"""Median and trimmed mean: Yin et al., Byzantine-Robust Distributed Learning, 2018."""

from typing import ClassVar

from pydantic import Field
from torch import Tensor

from fedpdc_med.methods.aggregation import TensorWise
from fedpdc_med.methods.parts import Method, Parts
from fedpdc_med.methods.weighting import equal


class CoordinateMedian(Method):
    """Each number is the median of the sites' numbers: fewer than half of the sites cannot move it far."""

    name: ClassVar[str] = "median"

    def parts(self) -> Parts:
        return Parts(weighting=equal, aggregate=TensorWise(median))


class TrimmedMean(Method):
    """Each number is the mean of the sites' numbers without the largest and the smallest `share` of them."""

    name: ClassVar[str] = "trimmed-mean"
    share: float = Field(default=0.1, ge=0, lt=0.5)  # dropped at each end; rounded down to whole sites

    def parts(self) -> Parts:
        return Parts(weighting=equal, aggregate=TensorWise(self.mean))

    def mean(self, values: Tensor) -> Tensor:
        cut = int(self.share * len(values) + 1e-9)
        return values.sort(dim=0).values[cut : len(values) - cut].mean(dim=0)


def median(values: Tensor) -> Tensor:
    """Over the first dimension; for an even number, the mean of the two in the middle."""
    ordered, last = values.sort(dim=0).values, len(values) - 1
    return (ordered[last // 2] + ordered[(last + 1) // 2]) / 2
