"""What a method is: its settings and the parts they make, one short file per method."""

from typing import Any

from pydantic import ValidationError

from fedpdc_med.common.errors import UserError
from fedpdc_med.methods.abavg import ABAVG
from fedpdc_med.methods.baselines import SOLO, Pooled, ReferenceOnly
from fedpdc_med.methods.data_sharing import DataSharing
from fedpdc_med.methods.fedavg import FedAvg
from fedpdc_med.methods.fedavgm import FedAvgM
from fedpdc_med.methods.fedpdc import FedPDC
from fedpdc_med.methods.fedpdc_ce import FedPDCCE
from fedpdc_med.methods.fedprox import FedProx
from fedpdc_med.methods.learned_weights import LearnedWeights
from fedpdc_med.methods.moon import MOON
from fedpdc_med.methods.parts import Method
from fedpdc_med.methods.robust import CoordinateMedian, TrimmedMean
from fedpdc_med.methods.scaffold import Scaffold
from fedpdc_med.methods.server_finetune import ServerFinetune
from fedpdc_med.runs.plan import MethodConfig

PAPER = (FedAvg, FedProx, MOON, SOLO, FedPDC)
OURS = (FedPDCCE,)
COMPETITORS = (ABAVG, DataSharing, ServerFinetune, LearnedWeights, ReferenceOnly, Pooled)  # for the same public set
OTHERS = (Scaffold, FedAvgM, CoordinateMedian, TrimmedMean)  # without a public set
METHODS: dict[str, type[Method]] = {method.name: method for method in (*PAPER, *OURS, *COMPETITORS, *OTHERS)}

__all__ = ["METHODS", "FedAvg", "Method", "config_of", "label", "make_method", "method_class", "method_of"]


def method_class(name: str) -> type[Method]:
    if name not in METHODS:
        raise UserError(f"there is no method {name!r}; choose one of {', '.join(METHODS)}")
    return METHODS[name]


def make_method(name: str, **settings: Any) -> Method:
    """The method of that name; a wrong setting is a UserError that names it and the value seen."""
    cls = method_class(name)
    unknown = sorted(set(settings) - set(cls.model_fields))
    if unknown:
        known = ", ".join(cls.model_fields) or "none"
        raise UserError(f"method {name!r} has no setting {unknown[0]!r}; its settings are: {known}")
    try:
        return cls(**settings)
    except ValidationError as error:
        first = error.errors()[0]
        raise UserError(f"method {name!r}, setting {first['loc'][0]!r} = {first['input']!r}: {first['msg']}") from None


def method_of(config: MethodConfig) -> Method:
    return make_method(config.name, **config.settings)


def label(method: MethodConfig) -> str:
    """The name with every setting that is not its default, as in `fedpdc soft-accuracy strength=1`; for people."""
    fields = method_class(method.name).model_fields
    changed = [(key, value) for key, value in method.settings.items() if value != fields[key].default]
    return " ".join([method.name, *(value if isinstance(value, str) else f"{key}={value:g}" for key, value in changed)])


def config_of(method: Method) -> MethodConfig:
    return MethodConfig(name=method.name, settings=method.model_dump())
