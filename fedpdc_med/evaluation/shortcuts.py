"""Can a class be guessed without looking at the lung? Then a model may score high and know nothing.

Every guess is a logistic regression, cross-validated by patient. Its worth is the area under the ROC curve of each
class against the rest (0.5 = nothing, 1 = always); a verdict looks at the lower end of that area's interval, so that
chance does not alarm. All is fine only where the area itself is small: a wide interval is no all-clear.
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
from fedpdc_med.runs.predictions import patient_codes, spoken

# Four of five pairs ranked right without the lung could carry a model; three of five are next to nothing.
ALARM_AUC, WATCH_AUC = 0.8, 0.6
FOLDS, FEWEST, MOST_FILMS, THUMBNAIL = 5, 10, 3000, 16
BORDER = 1 / 32  # of the side: collimation, padding and burnt-in marks, hardly ever lung


def source_from_image(
    images: np.ndarray,
    sources: np.ndarray,
    labels: np.ndarray,
    patients: np.ndarray,
    seed: int = 0,
    what: str = "source",
) -> Finding:
    """How well the source can be told from a tiny picture; or the site, then `what` says so in the sentence.

    Hospitals can nearly always be told apart, which does harm where the source also tells the class: only then is it
    an alarm.
    """
    finding = _guess(
        f"{what} from the image",
        lambda rows: thumbnails(images[rows]),
        sources,
        patients,
        seed,
        f"from a picture of {THUMBNAIL} by {THUMBNAIL} pixels",
    )
    if finding.verdict != "alarm":
        return finding
    if source_by_label(sources, labels).verdict in ("alarm", "watch"):
        means = f"The {what} also tells the class, so a model can learn the {what} in place of the disease."
        return replace(finding, sentence=f"{finding.sentence} {means}")
    means = f"The {what} tells little of the class, so this alone helps no model to cheat."
    return replace(finding, verdict="watch", sentence=f"{finding.sentence} {means}")


def class_from_border(images: np.ndarray, labels: np.ndarray, patients: np.ndarray, seed: int = 0) -> Finding:
    """How well the class can be told from the outermost strips of the film."""
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
    """How well the class can be told from height and width (N, 2) of the original film."""
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
    """Block means; the edge that does not fill a block is cut off."""
    height, width = images.shape[2] // side * side, images.shape[3] // side * side
    blocks = images[:, 0, :height, :width].reshape(len(images), side, height // side, side, width // side)
    return blocks.mean(axis=(2, 4), dtype=np.float32).reshape(len(images), -1)


def border_features(images: np.ndarray) -> np.ndarray:
    """Mean, spread and share of pure black of the four outermost strips."""
    height, width = images.shape[2:]
    rows, columns = max(1, round(height * BORDER)), max(1, round(width * BORDER))
    films = images[:, 0]
    strips = (films[:, :rows], films[:, -rows:], films[:, :, :columns], films[:, :, -columns:])
    features = [
        f for strip in strips for f in (strip.mean(axis=(1, 2)), strip.std(axis=(1, 2)), (strip == 0).mean(axis=(1, 2)))
    ]
    return np.stack(features, axis=1)


def shape_features(shapes: np.ndarray) -> np.ndarray:
    """Aspect, how far from square and on which side, size; on log scales, as twice and half are equally far from 1."""
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
    who_else = ", ".join(map(spoken, left_out)) if len(left_out) <= 3 else str(len(left_out))
    small = f" Left out, with under {FEWEST} patients: {who_else}." if left_out else ""
    if len(rows) == 0:
        nothing = pd.DataFrame(columns=["target", "films", "auc", "low", "high"])
        return Finding(
            name, "not estimable", f"Fewer than two groups have {FEWEST} patients: nothing to tell apart.", nothing
        )
    table = guess_table(features(rows), targets[rows], groups[rows], seed)
    verdict = verdict_of(table["auc"].max(), table["low"].max())
    top = table.iloc[0]
    if verdict in ("fine", "not estimable"):
        top = table.sort_values("auc", ascending=False).iloc[0]
    who, area = spoken(str(top["target"])), f"area {top['auc']:.2f} ({top['low']:.2f} to {top['high']:.2f})"
    sentence = {
        "alarm": f"{who} can be told {how}: {area}.",
        "watch": f"{who} can partly be told {how}: {area}.",
        "not estimable": f"Perhaps {who} can be told {how}: {area}. There are too few films to be sure.",
        "fine": f"Next to nothing can be told {how}: at most {who}, {area}.",
    }[verdict]
    return Finding(name, verdict, sentence + small, table)


def verdict_of(auc: float, low: float) -> Verdict:
    """From the largest area and the largest lower end: an alarm must be certain, and so must an all-clear."""
    if low >= ALARM_AUC:
        return "alarm"
    if low >= WATCH_AUC:
        return "watch"
    return "not estimable" if auc >= WATCH_AUC else "fine"


def _films_to_guess(targets: np.ndarray, groups: np.ndarray, seed: int) -> tuple[np.ndarray, list[str]]:
    """Films of the targets with enough patients (none if fewer than two have), and the names of the other targets.

    Of many films a few thousand are drawn, equally many a target, because the answer hardly changes and the wait does.
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
    """Columns target, films, auc, low, high: each target against the rest, the one told best first."""
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
    """The chances a model gives to films of patients it has not seen, and the targets they are for."""
    names = np.unique(targets)
    chances = np.zeros((len(targets), len(names)))
    folds = StratifiedGroupKFold(FOLDS, shuffle=True, random_state=seed)
    with threadpool_limits(1):  # so small a matrix gains nothing from threads, and beside other work they cost tenfold
        for train, test in folds.split(features, targets, groups):
            model = _model(len(train), features.shape[1]).fit(features[train], targets[train])
            chances[np.ix_(test, np.searchsorted(names, model.classes_))] = model.predict_proba(features[test])
    return chances, names


def _model(films: int, columns: int) -> Pipeline:
    shrink = [PCA(min(32, films // 2), random_state=0)] if columns > 64 else []
    return make_pipeline(StandardScaler(), *shrink, LogisticRegression(C=0.1, max_iter=500, class_weight="balanced"))
