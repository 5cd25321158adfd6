"""Can a class be predicted without looking at the lung? Then a model may perform well for the wrong reasons.

Every check is a logistic regression, cross-validated by patient. It is judged by the AUC of each class against the rest
(0.5 = chance, 1 = perfect). A verdict uses the lower end of the 95% CI, so that chance raises no alarm. A check is
"fine" only if the AUC itself is small: a wide CI is not an all-clear.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedGroupKFold
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from fedpdc_med.evaluation.confounding import Finding, Verdict, source_by_label
from fedpdc_med.evaluation.discrimination import auc_interval
from fedpdc_med.runs.predictions import display_name, patient_codes

# A model could rely on ranking four of five pairs correctly without the lung; three of five are close to chance.
ALARM_AUC, WATCH_AUC = 0.8, 0.6
FOLDS, FEWEST, MOST_FILMS, THUMBNAIL = 5, 10, 3000, 16
BORDER = 1 / 32  # of the side: collimation, padding and burned-in marks, rarely lung


def source_from_image(
    images: np.ndarray,
    sources: np.ndarray,
    labels: np.ndarray,
    patients: np.ndarray,
    seed: int = 0,
    what: str = "source",
) -> Finding:
    """How well the source can be predicted from a thumbnail; or the site, if `what` says so.

    Hospitals can nearly always be recognised. That is harmful if the source also predicts the class: only then is it an
    alarm.
    """
    finding = _guess(
        f"{what} from the image",
        lambda rows: thumbnails(images[rows]),
        sources,
        patients,
        seed,
        f"from a thumbnail of {THUMBNAIL} by {THUMBNAIL} pixels",
    )
    if finding.verdict != "alarm":
        return finding
    if source_by_label(sources, labels).verdict in ("alarm", "watch"):
        means = f"The {what} is also associated with the class, so a model can learn the {what} instead of the disease."
        return replace(finding, sentence=f"{finding.sentence} {means}")
    means = f"The {what} says little about the class, so this alone does not give a model a shortcut."
    return replace(finding, verdict="watch", sentence=f"{finding.sentence} {means}")


def class_from_border(images: np.ndarray, labels: np.ndarray, patients: np.ndarray, seed: int = 0) -> Finding:
    """How well the class can be predicted from the outermost strips of the film."""
    return _without_lung(
        _guess(
            "class from the border",
            lambda rows: border_features(images[rows]),
            labels,
            patients,
            seed,
            "from the border alone",
        )
    )


def class_from_shape(shapes: np.ndarray, labels: np.ndarray, patients: np.ndarray, seed: int = 0) -> Finding:
    """How well the class can be predicted from height and width (N, 2) of the original film."""
    return _without_lung(
        _guess(
            "class from the shape",
            lambda rows: shape_features(shapes[rows]),
            labels,
            patients,
            seed,
            "from height and width alone",
        )
    )


def thumbnails(images: np.ndarray, side: int = THUMBNAIL) -> np.ndarray:
    """Block means; edges that do not fill a block are cut off."""
    height, width = images.shape[2] // side * side, images.shape[3] // side * side
    blocks = images[:, 0, :height, :width].reshape(len(images), side, height // side, side, width // side)
    return blocks.mean(axis=(2, 4), dtype=np.float32).reshape(len(images), -1)


def border_features(images: np.ndarray) -> np.ndarray:
    """Mean, SD and proportion of pure black of the four outermost strips."""
    height, width = images.shape[2:]
    rows, columns = max(1, round(height * BORDER)), max(1, round(width * BORDER))
    films = images[:, 0]
    strips = (films[:, :rows], films[:, -rows:], films[:, :, :columns], films[:, :, -columns:])
    features = [
        f for strip in strips for f in (strip.mean(axis=(1, 2)), strip.std(axis=(1, 2)), (strip == 0).mean(axis=(1, 2)))
    ]
    return np.stack(features, axis=1)


def shape_features(shapes: np.ndarray) -> np.ndarray:
    """Aspect ratio, deviation from square, squareness and size; on log scales: 2 and 1/2 are equally far from 1."""
    height, width = np.log(np.asarray(shapes, dtype=float)).T
    aspect = height - width
    return np.stack([aspect, np.abs(aspect), np.abs(aspect) < 0.002, height + width], axis=1)


def _without_lung(finding: Finding) -> Finding:
    if finding.verdict != "alarm":
        return finding
    return replace(finding, sentence=f"{finding.sentence} A model can score high on it without looking at the lung.")


def _guess(
    name: str,
    features: Callable[[np.ndarray], np.ndarray],
    targets: np.ndarray,
    patients: np.ndarray,
    seed: int,
    how: str,
) -> Finding:
    targets, groups = np.asarray(targets), patient_codes(patients)
    rows, left_out = _films_to_guess(targets, groups, seed)
    who_else = ", ".join(map(display_name, left_out)) if len(left_out) <= 3 else str(len(left_out))
    small = f" Excluded (fewer than {FEWEST} patients): {who_else}." if left_out else ""
    if len(rows) == 0:
        nothing = pd.DataFrame(columns=["target", "films", "auc", "low", "high"])
        return Finding(
            name, "not estimable", f"Fewer than two groups have {FEWEST} patients, so there is no comparison.", nothing
        )
    table = guess_table(features(rows), targets[rows], groups[rows], seed)
    verdict = verdict_of(table["auc"].max(), table["low"].max())
    top = table.iloc[0]
    if verdict in ("fine", "not estimable"):
        top = table.sort_values("auc", ascending=False).iloc[0]
    who, area = display_name(str(top["target"])), f"AUC {top['auc']:.2f} ({top['low']:.2f} to {top['high']:.2f})"
    sentence = {
        "alarm": f"{who} can be predicted {how}: {area}.",
        "watch": f"{who} can partly be predicted {how}: {area}.",
        "not estimable": f"Possibly {who} can be predicted {how}: {area}. There are too few films to be sure.",
        "fine": f"Almost nothing can be predicted {how}; the highest AUC is for {who}: {area}.",
    }[verdict]
    return Finding(name, verdict, sentence + small, table)


def verdict_of(auc: float, low: float) -> Verdict:
    """From the highest AUC and the highest lower end: an alarm must be certain, and so must an all-clear."""
    if low >= ALARM_AUC:
        return "alarm"
    if low >= WATCH_AUC:
        return "watch"
    return "not estimable" if auc >= WATCH_AUC else "fine"


def _films_to_guess(targets: np.ndarray, groups: np.ndarray, seed: int) -> tuple[np.ndarray, list[str]]:
    """Films of the targets with enough patients (none if fewer than two targets have), and the other targets' names.

    From many films a few thousand are sampled, equally many per target: the result hardly changes, and it is faster.
    """
    people = pd.DataFrame({"target": targets, "group": groups}).drop_duplicates()["target"].value_counts()
    enough = sorted(people.index[people >= FEWEST])
    left_out = sorted(str(name) for name in people.index[people < FEWEST])
    if len(enough) < 2:
        return np.array([], dtype=int), left_out
    generator = np.random.default_rng(seed)
    drawn = []
    for target in enough:
        rows = np.flatnonzero(targets == target)
        drawn.append(generator.choice(rows, min(len(rows), max(MOST_FILMS // len(enough), 3 * FEWEST)), replace=False))
    return np.sort(np.concatenate(drawn)), left_out


def guess_table(features: np.ndarray, targets: np.ndarray, groups: np.ndarray, seed: int = 0) -> pd.DataFrame:
    """Columns target, films, auc, low, high: each target against the rest, best predicted first."""
    chances, names = _out_of_fold(features, targets, groups, seed)
    table = []
    for column, target in enumerate(names):
        positive = targets == target
        auc, low, high = auc_interval(chances[:, column], positive, pd.factorize(groups)[0])
        table.append({"target": target, "films": int(positive.sum()), "auc": auc, "low": low, "high": high})
    return pd.DataFrame(table).sort_values("low", ascending=False, kind="stable", ignore_index=True)


def _out_of_fold(
    features: np.ndarray, targets: np.ndarray, groups: np.ndarray, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Predicted probabilities for films of patients not used in training, and the targets they are for."""
    names = np.unique(targets)
    chances = np.zeros((len(targets), len(names)))
    folds = StratifiedGroupKFold(FOLDS, shuffle=True, random_state=seed)
    with threadpool_limits(1):  # for so small a matrix threads gain nothing, and on a busy machine they cost tenfold
        for train, test in folds.split(features, targets, groups):
            model = _model(len(train), features.shape[1]).fit(features[train], targets[train])
            chances[np.ix_(test, np.searchsorted(names, model.classes_))] = model.predict_proba(features[test])
    return chances, names


def _model(films: int, columns: int) -> Pipeline:
    shrink = [PCA(min(32, films // 2), random_state=0)] if columns > 64 else []
    return make_pipeline(StandardScaler(), *shrink, LogisticRegression(C=0.1, max_iter=500, class_weight="balanced"))
