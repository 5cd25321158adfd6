"""Differential privacy of a site's updates: clipped and noised before they leave it."""

import hashlib
import hmac

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, Field

from fedpdc_med.errors import UserError
from fedpdc_med.federation.messages import State


class Privacy(BaseModel):
    """The Gaussian mechanism on a site's whole update, so that it hides any film, and any set of films, of the site.

    It covers the model. The number of films and the loss, which a site returns beside it, are exact.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    clip: float = Field(gt=0)  # the most that one round may move the model, as a length over all of its numbers
    noise: float = Field(gt=0)  # the spread of the noise on every number, in clips
    delta: float = Field(default=1e-5, gt=0, lt=1)

    def epsilon(self, releases: int) -> float:
        """What so many updates give away together, by Opacus' accountant.

        Two clipped updates differ by two clips at most, which halves the noise in proportion.
        """
        try:  # here, because it takes seconds and most sites do not ask for it
            from opacus.accountants import RDPAccountant
        except ModuleNotFoundError:
            raise UserError(
                "a site's privacy needs Opacus; in the checkout of fedpdc_med, install it with: "
                "pip install -e '.[federation]' -c constraints.txt"
            ) from None

        accountant = RDPAccountant()
        accountant.history = [(self.noise / 2, 1.0, releases)]
        return float(accountant.get_epsilon(self.delta, alphas=(1 + np.logspace(-5, 3, 200)).tolist()))


def private(state: State, received: State, privacy: Privacy, rng: np.random.Generator) -> State:
    """The received model plus the site's change to it, clipped and noised; integer counters as they are."""
    changes = {name: (tensor - received[name]).double() for name, tensor in state.items() if tensor.is_floating_point()}
    length = float(torch.sqrt(sum((change.square().sum() for change in changes.values()), torch.zeros(()).double())))
    shrink = min(1.0, privacy.clip / length) if length else 1.0
    noised = dict(state)
    for name, change in changes.items():
        noise = torch.from_numpy(rng.normal(0.0, privacy.noise * privacy.clip, change.shape))
        noised[name] = (received[name].double() + change * shrink + noise).to(state[name].dtype)
    return noised


def noise_generator(
    secret: bytes, trained: State, received: State, privacy: Privacy, round: int
) -> np.random.Generator:
    """Noise that only the site can draw: whoever knew it could take it off again.

    The same for a round that is repeated with the same outcome, which therefore gives nothing more away; for any other
    update it is drawn anew, because two updates under one noise give away their difference.
    """
    seen = hashlib.sha256(f"round {round}, clip {privacy.clip}, noise {privacy.noise}".encode())
    for state in (trained, received):
        for name in sorted(state):
            seen.update(state[name].contiguous().numpy().tobytes())
    digest = hmac.digest(secret, b"noise of an update" + seen.digest(), "sha256")
    return np.random.default_rng(int.from_bytes(digest, "big"))
