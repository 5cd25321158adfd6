"""Training at a hospital as a FLARE executor: a job names this class, which the hospital has installed itself."""

import logging
from pathlib import Path
from typing import Any

from nvflare.apis.executor import Executor
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import ReservedHeaderKey, Shareable, make_reply
from nvflare.apis.signal import Signal

from fedpdc_med.engines.flare.client import Hospital, open_hospital
from fedpdc_med.engines.flare.messages import TRAIN, Refused
from fedpdc_med.engines.flare.policy import PLAN
from fedpdc_med.federation.privacy import PrivacySpent


class SiteTrainer(Executor):
    """Trains on request; the text of an error stays in the site's own log, because it may name files."""

    def __init__(self, plan: dict[str, Any]) -> None:
        super().__init__()
        self.plan = plan
        self.hospital: Hospital | None = None

    def execute(self, task_name: str, shareable: Shareable, fl_ctx: FLContext, abort_signal: Signal) -> Shareable:
        if task_name != TRAIN:
            return make_reply(ReturnCode.TASK_UNKNOWN)
        try:
            return self._trained(shareable, fl_ctx)
        except (Refused, PrivacySpent) as error:
            logging.getLogger(__name__).exception("nothing is sent")
            return make_reply(error.word if isinstance(error, Refused) else "privacy-spent")
        except Exception:  # FLARE's own line about it names no more than its type, see `start_environment`
            logging.getLogger(__name__).exception("this round's training failed")
            return make_reply(ReturnCode.EXECUTION_EXCEPTION)

    def _trained(self, shareable: Shareable, fl_ctx: FLContext) -> Shareable:
        if self.hospital is None:
            kit = Path(fl_ctx.get_engine().get_workspace().get_root_dir())
            self.hospital = open_hospital(self.plan, kit, fl_ctx.get_identity_name())
        fl_ctx.set_prop(PLAN, self.hospital.plan, private=True, sticky=False)  # for the site's own policy
        content = {name: value for name, value in shareable.items() if name != ReservedHeaderKey.HEADERS}
        reply = Shareable()
        reply.update(self.hospital.train(content))
        return reply
