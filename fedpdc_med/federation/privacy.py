"""Differential privacy of a site's updates: clipped and noised before they leave it."""

import hashlib
import hmac
import json
import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch

from fedpdc_med.common.errors import UserError, WorkFailed
from fedpdc_med.methods.parts import Method
from fedpdc_med.methods.server import State
from fedpdc_med.runs.plan import Privacy


class PrivacySpent(WorkFailed):
    """The site has spent its privacy budget; the text may be shown to the other side."""


def check_hides_all(site: str, method: Method) -> None:
    """Privacy covers the model, and nothing that a method sends in addition."""
    if method.parts().site_state is not None:
        raise UserError(
            f"method {method.name!r} sends more than a model, but the privacy of site {site!r} covers the model only; "
            "choose another method"
        )


def epsilon_of(privacy: Privacy, releases: int | Mapping[float, int]) -> float:
    """The epsilon of this many updates (or this many at each noise level) together, by Opacus' accountant.

    Two clipped updates differ by at most two clips, so the noise relative to the sensitivity is halved.
    """
    try:  # imported here, because it takes seconds and most sites do not use it
        from opacus.accountants import RDPAccountant
    except ModuleNotFoundError:
        raise UserError(
            "a site's privacy needs Opacus; in the checkout of fedpdc_med, install it with: "
            "pip install -e '.[federation]' -c constraints.txt"
        ) from None

    by_noise = {privacy.noise: releases} if isinstance(releases, int) else releases
    accountant = RDPAccountant()
    accountant.history = [(noise / 2, 1.0, count) for noise, count in sorted(by_noise.items())]
    return float(accountant.get_epsilon(privacy.delta, alphas=(1 + np.logspace(-5, 3, 200)).tolist()))


def check_limit(privacy: Privacy, epsilon: float) -> None:
    if privacy.limit is not None and epsilon > privacy.limit:
        raise PrivacySpent(f"its epsilon would be {epsilon:.4g} with this update, but its limit is {privacy.limit:g}")


class Releases:
    """The updates a site has sent, in its own file, because a coordinator could claim that each round is the first.

    Updates of all runs count, each once: the same update sent again reveals nothing more.
    """

    def __init__(self, file: Path) -> None:
        self.file = file

    def by_noise(self) -> Counter[float]:
        return Counter(self._sent().values())

    def add(self, release: bytes, noise: float) -> None:
        """Recorded before the update leaves the site."""
        name = hashlib.sha256(release).hexdigest()[:32]  # `release` is what the noise is drawn from
        if name in self._sent():
            return
        self.file.parent.mkdir(parents=True, exist_ok=True)
        with self.file.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps({"release": name, "noise": noise}) + "\n")
            lines.flush()
            os.fsync(lines.fileno())

    def _sent(self) -> dict[str, float]:
        if not self.file.exists():
            return {}
        try:
            lines = [json.loads(line) for line in self.file.read_text(encoding="utf-8").splitlines()]
            return {line["release"]: float(line["noise"]) for line in lines}
        except (ValueError, KeyError, TypeError):
            raise WorkFailed(f"{self.file.name} is corrupt, so what was sent so far is unknown; restore it") from None


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


def release_of(secret: bytes, trained: State, received: State, privacy: Privacy, round: int) -> bytes:
    """The seed of an update's noise, known to the site only: anyone who knew it could remove the noise.

    It is the same for a round that is repeated with the same outcome, which therefore reveals nothing more. Any other
    update gets new noise, because two updates with the same noise would reveal their difference.
    """
    seen = hashlib.sha256(f"round {round}, clip {privacy.clip}, noise {privacy.noise}".encode())
    for state in (trained, received):
        for name in sorted(state):
            seen.update(state[name].contiguous().numpy().tobytes())
    return hmac.digest(secret, b"noise of an update" + seen.digest(), "sha256")


def noise_of(release: bytes) -> np.random.Generator:
    return np.random.default_rng(int.from_bytes(release, "big"))
