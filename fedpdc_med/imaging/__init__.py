"""Films in: DICOM pixels, de-identification, public collections, duplicates, patient-level splits, phantoms."""
