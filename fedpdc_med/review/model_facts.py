"""The facts of a run: the model, its training, its sites, its intended use, and when not to use it."""

import pandas as pd

from fedpdc_med.common.description import between, count, signed
from fedpdc_med.evaluation.contributions import OK
from fedpdc_med.evaluation.recall import Estimate
from fedpdc_med.evaluation.sites import Headline, untaught_classes
from fedpdc_med.runs.directory import Run
from fedpdc_med.runs.listing import is_main
from fedpdc_med.runs.plan import MethodConfig
from fedpdc_med.runs.predictions import display_name
from fedpdc_med.runs.schema import BenchmarkRun, SiteSummary

PHANTOM = "phantom"  # how the provenance of a synthetic reference set begins


def is_phantom(view: Run) -> bool:
    config = view.config
    return not isinstance(config, BenchmarkRun) and config.reference.provenance.startswith(PHANTOM)


def is_medical(view: Run) -> bool:
    return not isinstance(view.config, BenchmarkRun)


def method_of(view: Run) -> str:
    return view.method if is_main(view.plan) else f"{view.method} (a comparison)"


def model_facts(view: Run) -> list[tuple[str, str]]:
    """The model and its training, as pairs of a name and a value."""
    config, plan = view.config, view.plan
    taking_part, outside = _sites(view)
    training = training_films(view)
    task = config.experiment.title if isinstance(config, BenchmarkRun) else ""
    facts = [
        ("Run", view.name),
        ("Task", task or "chest X-ray classification"),
        ("Classes", ", ".join(map(display_name, view.classes))),
        ("Method", _method(plan.method)),
        ("Network", f"{plan.network.name}, {plan.network.norm} normalisation"),
        ("Rounds", f"{len(view.rounds)} of {plan.rounds}"),
        ("Participating sites", _participating(view, taking_part)),
        ("Training films", f"{training.to_numpy().sum():,}" if len(training.columns) else _films_sent(view)),
        ("External sites", ", ".join(outside) or "none"),
        ("Reference set", _reference(view)),
        ("Seed", str(plan.seed)),
        ("Software", ", ".join(f"{name} {number}" for name, number in config.made_with.items())),
        ("Source code", config.git_commit or "unknown"),
    ]
    return [(word, value) for word, value in facts if value]


def training_films(view: Run) -> pd.DataFrame:
    """Training films: one row per participating site, one column per class; no columns if the run does not say."""
    rows = {name: site.training_films for name, site in view.sites.items() if site.takes_part}
    if not rows:
        return pd.DataFrame(index=sorted(_in_rounds(view)))
    return pd.DataFrame(rows).reindex(view.classes).fillna(0).astype(int).T


def sites_table(view: Run) -> pd.DataFrame:
    """One row per site: its name, its role and its films."""
    training = training_films(view)
    rows = []
    for name in view.sites or _in_rounds(view):
        site = view.sites.get(name)
        row = {
            "site": view.title_of(name),
            "role": _role(view, name),
            "films": _reported(site.films if site else _in_rounds(view)[name]),
        }
        if site:
            row["patients"] = _reported(site.patients)
            known = name in training.index and bool(site.training_films)
            row |= {
                f"training: {display_name(one)}": str(training.loc[name, one]) if known else "" for one in view.classes
            }
        rows.append(row)
    return pd.DataFrame(rows)


def intended_use(view: Run) -> list[str]:
    classes = _classes(view)
    if not is_medical(view):
        images = view.config.data.name if isinstance(view.config, BenchmarkRun) else ""
        return [
            f"To compare training methods on a public image set ({images}).",
            f"The model assigns each image to one of: {classes}.",
        ]
    films = "synthetic films (digital phantoms)" if is_phantom(view) else "chest X-ray films"
    return [
        f"Research on triage of {films}: the model assigns each {_views(view)}film to one of: {classes}.",
        "To study, class by class, what sites with skewed collections gain from federated training.",
    ]


def not_to_use(view: Run, numbers: Headline | None, recall: pd.DataFrame | None) -> list[str]:
    """When not to use the model, given its films and its recall."""
    if not is_medical(view):
        return ["For any medical purpose: its images do not show patients, and its results only compare methods."]
    warnings = ["For diagnosis, or for any decision about a patient. It is not a medical device."]
    if is_phantom(view):
        warnings.append("To judge how well it works on patients: its reference films are synthetic.")
    warnings.append(
        f"On films that may show anything other than {_classes(view)}: the model assigns every film to one of these "
        "classes."
    )
    warnings.append(f"On films from other sources or of other kinds than those it was tested on: {_tested_on(view)}.")
    if untaught := untaught_classes(view.sites, view.classes):
        warnings.append(f"For {', '.join(map(display_name, untaught))}: no participating site had training films.")
    if recall is not None:
        warnings += _weak(recall)
    if numbers is not None and numbers.drop is not None and numbers.drop.macro.low > 0:
        drop = numbers.drop.macro
        warnings.append(
            "At another site without testing it there first: at the external site "
            f"{view.title_of(numbers.outside)}, macro recall was {drop.value:.2f} lower (95% CI "
            f"{between(drop.low, drop.high)})."
        )
    return warnings


def worst_named(worst: Estimate, recall: pd.DataFrame) -> str:
    """The worst class, and how many share its recall, as in `pneumonia, tied with 2 other classes`."""
    more = int((recall["recall"] == worst.value).sum()) - 1
    tied = f", tied with {more} other {'class' if more == 1 else 'classes'}" if more > 0 else ""
    return display_name(worst.name) + tied


def worst_of(numbers: Headline) -> str:
    """Which external site a number is of, where there are several."""
    return f"the worst of {len(numbers.drops)} external sites" if len(numbers.drops) > 1 else ""


def changed_by(drop: Estimate, films: str) -> str:
    """A drop in words, as in `0.12 lower than on held-out test films (-0.20 to -0.04)`."""
    size = f"{abs(drop.value):.2f}"
    words = "the same as on" if size == "0.00" else f"{size} {'lower' if drop.value > 0 else 'higher'} than on"
    return f"{words} {films} ({signed(-drop.high)} to {signed(-drop.low)})"


def _classes(view: Run) -> str:
    names = [display_name(name) for name in view.classes]
    return ", ".join(names) if len(names) <= 10 else f"{', '.join(names[:8])} and {len(names) - 8} more"


def _weak(recall: pd.DataFrame) -> list[str]:
    """Classes whose recall may be below one half, and classes without test films."""
    unknown = [display_name(name) for name in recall.loc[recall["total"] == 0, "class"]]
    low = recall[recall["low"] < 0.5]
    found = []
    if len(low):
        named = ", ".join(f"{display_name(row['class'])} ({row['recall']:.2f})" for row in low.to_dict("records"))
        found.append(f"To rule out a class it may miss half the time (recall in brackets): {named}.")
    if unknown:
        found.append(f"For {', '.join(unknown)}: there were no films to test it on.")
    return found


def _sites(view: Run) -> tuple[list[str], list[str]]:
    """The names of the participating sites, and the titles of the external ones."""
    if not view.sites:
        return sorted(_in_rounds(view)), []
    part = [name for name, site in view.sites.items() if site.takes_part]
    return part, [view.title_of(name) for name, site in view.sites.items() if not site.takes_part]


def _participating(view: Run, taking_part: list[str]) -> str:
    """How many sites' updates were used; up to five others are named."""
    never = [view.title_of(name) for name in taking_part if _never_used(view, name)]
    used = count(len(taking_part) - len(never), "site")
    if not never:
        return used
    return f"{used}; no update from {', '.join(never) if len(never) <= 5 else f'{len(never)} more'} was used"


def _never_used(view: Run, site: str) -> bool:
    used = (site in record.sites and record.sites[site].status == OK for record in view.rounds)
    return bool(view.rounds) and not any(used)


def _role(view: Run, site: str) -> str:
    if not view.sites.get(site, SiteSummary()).takes_part:
        return "external"
    return "no update used" if _never_used(view, site) else "training"


def _reported(number: int | None) -> str:
    """A count; in a federation across hospitals, sites do not report all of them to the coordinator."""
    return f"{number:,}" if number else "not reported"


def _in_rounds(view: Run) -> dict[str, int]:
    """The sites of the rounds with the most films each has trained on."""
    found: dict[str, int] = {}
    for record in view.rounds:
        for name, site in record.sites.items():
            found[name] = max(found.get(name, 0), site.films or 0)
    return found


def _films_sent(view: Run) -> str:
    return f"{sum(_in_rounds(view).values()):,}"


def _method(method: MethodConfig) -> str:
    settings = ", ".join(f"{key} {value}" for key, value in method.settings.items())
    return f"{method.name} ({settings})" if settings else method.name


def _reference(view: Run) -> str:
    config = view.config
    if isinstance(config, BenchmarkRun):
        return f"{config.experiment.public_per_class} images per class"
    counts = ", ".join(f"{name} {sum(films.values())}" for name, films in config.reference.splits.items())
    total = count(config.reference.films, "film")
    provenance = "synthetic films (digital phantoms)" if is_phantom(view) else config.reference.provenance
    return f"{provenance}; {total}" + (f" ({counts})" if counts else "")


def _views(view: Run) -> str:
    seen = _values(view, "view")
    return f"{' or '.join(seen)} " if seen and len(seen) <= 3 else ""


def _tested_on(view: Run) -> str:
    parts = []
    for column, word in (("source", "sources"), ("view", "views"), ("age_band", "age bands"), ("sex", "sexes")):
        seen = _values(view, column)
        parts.append(f"{word} {', '.join(seen[:8])}" if seen else f"{word} not recorded")
    return "; ".join(parts)


def _values(view: Run, column: str) -> list[str]:
    if view.predictions is None:
        return []
    return sorted(str(value) for value in view.predictions[column].unique() if value)
