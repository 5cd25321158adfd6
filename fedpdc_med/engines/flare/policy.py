"""What may leave a hospital: FLARE applies this filter at the site to every result of every job."""

import logging
from functools import cache

from nvflare.apis.dxo_filter import Filter
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import ReservedHeaderKey, Shareable, make_reply

from fedpdc_med.engines.flare.messages import REFUSALS, BadMessage, largest, packed, read_answer, unpacked
from fedpdc_med.methods import method_of
from fedpdc_med.methods.aggregation import problem_with
from fedpdc_med.methods.server import State
from fedpdc_med.models import build_model
from fedpdc_med.runs.plan import Network, Plan

PLAN = "fedpdc_plan"  # where the trainer puts the run's plan, for this process only


class OnlyModelAndNumbers(Filter):
    """Passes a state of this run's model and the named numbers, repacked; anything else stays at the site."""

    def __init__(self, classes: list[str]) -> None:
        super().__init__()
        self.classes = tuple(classes)

    def process(self, shareable: Shareable, fl_ctx: FLContext) -> Shareable:
        """An exception here makes FLARE answer with an error code instead of the result.

        The reason is in the site's own log only: any administrator can request what is given to FLARE's `log_error`.
        """
        content = {name: value for name, value in shareable.items() if name != ReservedHeaderKey.HEADERS}
        if not content:
            code = shareable.get_return_code()
            return make_reply(code if code in REFUSALS else ReturnCode.EXECUTION_EXCEPTION)
        try:
            return self._passed(content, fl_ctx.get_prop(PLAN))
        except Exception:
            logging.getLogger(__name__).exception("refused to send a result")
            raise

    def _passed(self, content: dict[str, object], plan: object) -> Shareable:
        if not isinstance(plan, Plan):
            raise BadMessage("it is not the trainer's")
        model, trained = states_of(plan)
        answer = read_answer(content, self.classes, largest(model))
        clean = Shareable()
        clean.update(site=answer.site, round=answer.round, state=checked(answer.state, model), numbers=answer.numbers)
        clean["extra"] = None if answer.extra is None else checked(answer.extra, trained)
        if (answer.extra is None) != (method_of(plan.method).parts().site_state is None):
            raise BadMessage("what is sent in addition to the model is not what its method sends")
        return clean


def checked(data: bytes, expected: State) -> bytes:
    """The sender's state, repacked, if its names, shapes and types are the expected ones."""
    state = unpacked(data)
    problem = problem_with(state, expected)
    if problem:
        raise BadMessage(problem)
    return packed(state)


def states_of(plan: Plan) -> tuple[State, State]:
    """Names, shapes and types of the run's model, and of its trained parameters."""
    return _expected(plan.network.model_dump_json())


@cache
def _expected(network: str) -> tuple[State, State]:
    model = build_model(Network.model_validate_json(network), seed=0)
    return model.state_dict(), dict(model.named_parameters())
