"""Who holds the training films, where a method wants it otherwise: all in one place, or the public ones."""

from collections import Counter
from dataclasses import replace

import numpy as np
import torch

from fedpdc_med.federation.data import Federation, SiteFilms
from fedpdc_med.federation.images import Films


def arranged(federation: Federation) -> Federation:
    """The federation as its method wants it: as it is, or with a single site in place of all.

    That site trains as most of the sites do, for as many rounds and epochs.
    """
    trains = federation.method.parts().trains
    if trains in ("sites", "alone"):
        return federation
    parts = [selected(federation.pools[site.pool], site.indices) for site in federation.sites.values()]
    name = "pooled"
    if trains == "public":
        # Scored on films that it was trained on: with one site the score chooses nothing, its weight is 1.
        name = "reference"
        parts = [films for films in (federation.correction, federation.weighting) if films is not None]
    films = joined(*parts)
    site = replace(usual_site(federation), pool=0, indices=None, count=len(films))
    return replace(federation, pools=[films], sites={name: site})


def usual_site(federation: Federation) -> SiteFilms:
    """A site that trains as most do, the first such: the model for who trains without being a site."""
    sites = federation.sites.values()
    (settings, _), *_ = Counter(site.settings for site in sites).most_common()
    return next(site for site in sites if site.settings == settings)


def selected(films: Films, indices: np.ndarray | None) -> Films:
    if indices is None:
        return films
    chosen = torch.from_numpy(indices).to(films.labels.device)
    return Films(films.images[chosen], films.labels[chosen])


def joined(*parts: Films) -> Films:
    """All of them in one, channels last like each."""
    rows = torch.cat([part.images.permute(0, 2, 3, 1) for part in parts]).contiguous()
    return Films(rows.permute(0, 3, 1, 2), torch.cat([part.labels for part in parts]))
