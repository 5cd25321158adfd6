"""Methods that train in one place: on the films of all sites, or on the public films."""

from dataclasses import replace

import numpy as np
import torch

from fedpdc_med.federation.data import LocalFederation
from fedpdc_med.federation.images import Films
from fedpdc_med.methods import method_of


def arranged(federation: LocalFederation) -> LocalFederation:
    """The federation as its method needs it: unchanged, or with a single site instead of all.

    That site trains with the most common settings of the sites, for as many rounds and epochs.
    """
    trains, coordinator = method_of(federation.plan.method).parts().trains, federation.coordinator
    if trains in ("sites", "alone"):
        return federation
    parts = [selected(site.films, site.indices) for site in federation.sites.values()]
    name = "pooled"
    if trains == "public":
        # Scored on its own training films, which does no harm: a single site has weight 1 whatever its score.
        name = "reference"
        parts = [films for films in (coordinator.correction, coordinator.weighting) if films is not None]
    usual = next(site for site in federation.sites.values() if site.settings == coordinator.settings)
    site = replace(usual, name=name, films=joined(*parts), indices=None)
    return replace(federation, coordinator=replace(coordinator, sites=(name,)), sites={name: site})


def selected(films: Films, indices: np.ndarray | None) -> Films:
    if indices is None:
        return films
    chosen = torch.from_numpy(indices).to(films.labels.device)
    return Films(films.images[chosen], films.labels[chosen])


def joined(*parts: Films) -> Films:
    """All of them in one, channels last."""
    rows = torch.cat([part.images.permute(0, 2, 3, 1) for part in parts]).contiguous()
    return Films(rows.permute(0, 3, 1, 2), torch.cat([part.labels for part in parts]))
