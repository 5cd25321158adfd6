"""The classes of films, other names for them, and which films are accepted.

The command line imports this file before anything that takes time to import.
"""

import re
from typing import Literal

CLASSES = ("normal", "pneumonia", "covid-19", "tuberculosis")
VIEWS = ("PA", "AP", "frontal", "lateral", "unknown")
# "frontal" is a film known to be frontal, if it is not recorded whether it is PA or AP.
FRONTAL = ("PA", "AP", "frontal")
# Rib views are deliberately excluded: they are exposed for bone and often oblique, so lung findings look different.
CHEST = ("CHEST", "THORAX", "LUNG", "LUNGS")
Fit = Literal["pad", "crop"]  # how a film that is not square becomes square

_OTHER_NAMES = {
    "normal": {"normal", "no finding", "no findings", "healthy"},
    # The COVID-19 Radiography Database uses "Lung opacity" for its non-COVID lung infections.
    "pneumonia": {"pneumonia", "viral pneumonia", "bacterial pneumonia", "lung opacity"},
    "covid-19": {"covid 19", "covid", "covid19"},
    "tuberculosis": {"tuberculosis", "tb"},
}
_CLASS_OF = {name: label for label, names in _OTHER_NAMES.items() for name in names}


def class_of(text: str) -> str | None:
    """The class that a label means, ignoring case and punctuation, or None."""
    return _CLASS_OF.get(re.sub(r"[\s_\u2010-\u2015-]+", " ", text).strip().lower())
