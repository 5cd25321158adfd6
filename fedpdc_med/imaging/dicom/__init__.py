"""DICOM files: headers, pixels, de-identification."""
