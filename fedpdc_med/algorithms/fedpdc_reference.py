"""FedPDC with the correction that acts: the recommended method, explained in docs/recommended.md."""

from typing import ClassVar, Literal

from fedpdc_med.algorithms.fedpdc import FedPDC


class FedPDCReference(FedPDC):
    """FedPDC in which the site's score corrects its training on the public films themselves; not the paper's."""

    name: ClassVar[str] = "fedpdc-reference"
    correction: Literal["reference"] = "reference"
