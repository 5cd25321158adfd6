"""What may leave a hospital: FLARE applies this filter at the site to every result of every job."""

from nvflare.apis.dxo_filter import Filter
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import ReservedHeaderKey, Shareable

from fedpdc_med.engines.flare.messages import BadMessage, read_answer

MOST_BYTES = 4 << 30


class OnlyModelAndNumbers(Filter):
    """Passes a model state and the named numbers, copied into a new message; anything else stays at the site."""

    def __init__(self, classes: list[str], most_bytes: int = MOST_BYTES) -> None:
        super().__init__()
        self.classes, self.most_bytes = tuple(classes), most_bytes

    def process(self, shareable: Shareable, fl_ctx: FLContext) -> Shareable:
        """An exception here makes FLARE answer with an error code in place of the result."""
        content = {name: value for name, value in shareable.items() if name != ReservedHeaderKey.HEADERS}
        if not content:
            return Shareable()
        try:
            answer = read_answer(content, self.classes, self.most_bytes)
        except BadMessage as problem:
            self.log_error(fl_ctx, f"refused to send a result: {problem}")
            raise
        clean = Shareable()
        clean.update(site=answer.site, round=answer.round, state=answer.state, numbers=answer.numbers)
        return clean
