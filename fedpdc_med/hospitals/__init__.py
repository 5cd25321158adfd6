"""The medical application that simulate and FLARE share; a site file imports its names from here."""

from fedpdc_med.hospitals.site import HospitalSite, Phantoms
from fedpdc_med.imaging.phantoms.scanners import Scanner
from fedpdc_med.runs.plan import LocalSettings, Privacy

__all__ = ["HospitalSite", "LocalSettings", "Phantoms", "Privacy", "Scanner"]
