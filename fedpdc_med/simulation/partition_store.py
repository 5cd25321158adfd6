"""Partition one film store into several simulated sites with skewed classes; no patient is in two sites."""

from pathlib import Path

import numpy as np
import pandas as pd

from fedpdc_med.common.errors import UserError
from fedpdc_med.common.paths import checked_name, owner_only, site_store
from fedpdc_med.federation.partition import partition
from fedpdc_med.imaging.duplicates import groups
from fedpdc_med.imaging.splits import TRAIN_TEST, split_by_group
from fedpdc_med.imaging.store import FilmStore, read_store, write_store

MODULE = '''"""{films} films partitioned from {origin} (rule {rule}, seed {seed})."""

from fedpdc_med.hospitals import HospitalSite, LocalSettings

SITE = HospitalSite(
    name="{name}",
    films="{name}",  # its film store
    settings=LocalSettings(epochs=1, batch_size=16, learning_rate=0.03),
)
'''


@owner_only()
def partition_store(
    store: FilmStore, sites: int, rule: str, beta: float, folder: Path, seed: int, overwrite: bool = False
) -> dict[str, pd.DataFrame]:
    """Make a film store, and a site file in `folder`, for each new site; near-duplicates and patients stay together."""
    manifest, origin = store.manifest, str(store.info["site"])
    grouped = groups(list(manifest["patient"]), list(manifest["perceptual_hash"]))
    labels = pd.Series(pd.factorize(manifest["label"])[0]).groupby(grouped).agg(lambda found: found.mode().iloc[0])
    parts = partition(rule, labels.to_numpy(), sites, np.random.default_rng(seed), beta=beta, least=4)
    names = [checked_name(f"{origin}-{number}") for number in range(1, sites + 1)]
    _check_free(names, folder, overwrite)
    folder.mkdir(parents=True, exist_ok=True)
    for module in folder.glob(f"{origin}-*.py"):  # an earlier partition's, which this one replaces
        if overwrite and f"films partitioned from {origin} (" in module.read_text(encoding="utf-8"):
            module.unlink()
    sites_films = {}
    for name, part in zip(names, parts, strict=True):
        rows = np.flatnonzero(np.isin(grouped, labels.index.to_numpy()[part]))
        mine = manifest.iloc[rows].reset_index(drop=True)
        mine["split"] = split_by_group(list(mine["label"]), grouped[rows], TRAIN_TEST, seed)
        films = (store.films[row] for row in rows)
        size, processing = store.info["size"], store.info["processing"]
        write_store(site_store(name), films, mine, site=name, size=size, processing=processing)
        text = MODULE.format(films=len(mine), origin=origin, rule=rule, seed=seed, name=name)
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
        sites_films[name] = mine
    return sites_films


def _check_free(names: list[str], folder: Path, overwrite: bool) -> None:
    """An earlier partition may be replaced, but never a site's own films."""
    for name in names:
        if not overwrite and (folder / f"{name}.py").exists():
            raise UserError(f"{name}.py is already in the folder; use --overwrite, or choose another --out")
        if not (site_store(name) / "store.json").is_file():
            continue
        if read_store(site_store(name)).info["ingest"]:
            raise UserError(f"{name} is a site whose films were ingested; a partition would replace them")
        if not overwrite:
            raise UserError(f"there is already a film store {name}; use --overwrite to replace it")
