"""For tests: a hospital with tampered software, which does wrong in the rounds that a file names."""

import json
import os
import time
from pathlib import Path


def order(message):
    orders = Path(os.environ["MISBEHAVE"])
    return json.loads(orders.read_text(encoding="utf-8")).get(str(message.get("round"))) if orders.exists() else None


def tamper():
    from nvflare.private.fed.client import client_runner
    from nvflare.private.privacy_manager import Scope

    do_task, send = client_runner.ClientRunner._do_task, client_runner.ClientRunner._send_task_result
    apply_filters = client_runner.apply_filters

    def slowly(self, task, fl_ctx, abort_signal):
        if order(task.data) == "slow":
            Path(os.environ["MISBEHAVE"] + ".busy").touch()
            time.sleep(600)
        return do_task(self, task, fl_ctx, abort_signal)

    def smuggling(name, result, *rest, **more):
        if name == Scope.TASK_RESULT_FILTERS_NAME and order(result) == "smuggle":
            result["film"] = b"pixels"  # before the site's own policy looks
        return apply_filters(name, result, *rest, **more)

    def spoiling(self, result, task_id, fl_ctx):
        if "state" in result:
            spoil(result, order(result))  # after it has looked
        return send(self, result, task_id, fl_ctx)

    client_runner.ClientRunner._do_task = slowly
    client_runner.ClientRunner._send_task_result = spoiling
    client_runner.apply_filters = smuggling


def spoil(result, how):
    import torch
    from safetensors.torch import load, save

    state = load(result["state"])
    first = next(iter(state))
    if how == "nan":
        state[first] = torch.full_like(state[first], float("nan"))
    if how == "shape":
        state[first] = state[first].flatten()[:-1].clone()
    if how == "huge":
        state["padding"] = torch.zeros(100 * len(result["state"]) // 4)
    if how == "name":
        result["site"] = "north"
    if how is not None:
        result["state"] = save(state)


if "MISBEHAVE" in os.environ:
    tamper()
