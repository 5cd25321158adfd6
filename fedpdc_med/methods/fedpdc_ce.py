"""FedPDC with a correction that has an effect, the recommended method; docs/recommended.md explains it."""

from dataclasses import replace
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from fedpdc_med.methods.fedpdc import FedPDC
from fedpdc_med.methods.parts import Parts


class FedPDCCE(FedPDC):
    """FedPDC with the cross-entropy on public films as its correction, from the first round on."""

    name: ClassVar[str] = "fedpdc-ce"
    costs: ClassVar[tuple[str, ...]] = ("strength",)
    correction: Literal["cross-entropy"] = "cross-entropy"
    strength: Annotated[float, Field(ge=0)] | Literal["adaptive", "by-size"] = "by-size"

    def parts(self) -> Parts:
        """In the paper a site without a score is not corrected; here it is corrected in full."""
        return replace(super().parts(), unscored=0.0)
