"""FedPDC with a correction that acts, the recommended method; docs/recommended.md explains it."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from fedpdc_med.algorithms.fedpdc import FedPDC


class FedPDCCE(FedPDC):
    """FedPDC with the cross-entropy of public films as its correction."""

    name: ClassVar[str] = "fedpdc-ce"
    correction: Literal["cross-entropy"] = "cross-entropy"
    strength: Annotated[float, Field(ge=0)] | Literal["adaptive"] = 1.0
