"""The classes films are sorted into, and the names other people use for them."""

import re

CLASSES = ("normal", "pneumonia", "covid-19", "tuberculosis")

_OTHER_NAMES = {
    "normal": {"normal", "no finding", "no findings", "healthy"},
    # "Lung opacity" is what the COVID-19 Radiography Database calls its non-COVID lung infections.
    "pneumonia": {"pneumonia", "viral pneumonia", "bacterial pneumonia", "lung opacity"},
    "covid-19": {"covid 19", "covid", "covid19"},
    "tuberculosis": {"tuberculosis", "tb"},
}
_CLASS_OF = {name: label for label, names in _OTHER_NAMES.items() for name in names}


def class_of(text: str) -> str | None:
    """The class a label means, whatever its case and punctuation, or None."""
    return _CLASS_OF.get(re.sub(r"[\s_\u2010-\u2015-]+", " ", text).strip().lower())
