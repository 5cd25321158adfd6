import time

import pandas as pd

from fedpdc_med.evaluation import calibration, discrimination, recall, sites, subgroups
from fedpdc_med.evaluation import confusion as errors
from fedpdc_med.evaluation import operating_points as operating
from fedpdc_med.runs.predictions import classes_of, select, validate

CLASSES = ("normal", "pneumonia", "covid-19", "tuberculosis")


def test_100000_predictions_of_50_sites_are_summarised_in_a_few_seconds(random_frame):
    """Processor time, so that other work on the machine does not decide; about 1.5 s when it was written."""
    inside = random_frame(60_000, films_of_a_patient=2, classes=CLASSES)
    weighting = random_frame(10_000, 2, 1, CLASSES).assign(split="weighting")
    local = random_frame(30_000, 2, 2, CLASSES, sites=50).assign(split="local")
    frame = pd.concat([inside, weighting, local], ignore_index=True)

    started = time.process_time()
    validate(frame)
    holdout = select(frame, model="global", split="holdout")
    sites.headline(frame)
    recall.per_class_recall(holdout)
    assert len(sites.site_by_class(select(frame, split="local"))) == 200
    errors.confusion(holdout)
    errors.dangerous_cells(holdout)
    for label in classes_of(frame):
        operating.choose_threshold(select(frame, split="weighting"), label)
        operating.threshold_table(holdout, label)
        calibration.reliability(holdout, label)
        discrimination.roc(holdout, label)
        discrimination.precision_recall(holdout, label)
    calibration.calibration(holdout)
    discrimination.discrimination(holdout)
    subgroups.subgroup_recall(holdout)
    assert time.process_time() - started < 5
