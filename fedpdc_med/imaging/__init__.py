"""Films: DICOM pixels, de-identification, public datasets, duplicates, patient-level splits, synthetic films."""
