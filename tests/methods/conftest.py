"""Rounds as the coordinator's parts see them, with a few numbers in place of a model."""

import pytest
from safetensors.torch import save_file

from fedpdc_med.methods.server import ScoredUpdate, ServerRound


@pytest.fixture
def server_round(tmp_path):
    """A maker of rounds out of updates (films, score, recall, state, extra) and what the coordinator holds."""

    def kept(name, state):
        if state is None:
            return None
        save_file(state, tmp_path / name)
        return tmp_path / name

    def make(*updates, t=1, sites=None, received=None, memory=None, parameters=(), run=None):
        scored = [
            ScoredUpdate(
                site=f"site-{i}",
                model=kept(f"site-{i}.round{t}", update.get("state")),
                films=update.get("films", 1),
                score=update.get("score", 0.5),
                recall=update.get("recall", {}),
                extra=kept(f"site-{i}.round{t}.extra", update.get("extra")),
            )
            for i, update in enumerate(updates)
        ]
        return ServerRound(
            round=t,
            rounds=10,
            sites=sites or len(updates),
            updates=scored,
            parameters=frozenset(parameters),
            global_model=kept("global", received),
            memory_file=kept("memory", memory),
            folder=tmp_path,
            run_at_coordinator=run,
        )

    return make
