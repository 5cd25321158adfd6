"""A chest clinic that follows tuberculosis."""

from fedpdc_med.imaging.hospital import HospitalSite, LocalSettings, Phantoms, Scanner

SITE = HospitalSite(
    name="eastgate-chest-clinic",
    title="Eastgate Chest Clinic",
    films=Phantoms(
        case_mix={"normal": 36, "pneumonia": 14, "covid-19": 3, "tuberculosis": 120},
        scanner=Scanner(
            model="eastgate CR",
            modality="CR",
            bits=12,
            photometric="MONOCHROME1",
            exposure=0.05,
            noise=0.02,
            compressed=True,
        ),
    ),
    settings=LocalSettings(epochs=2, batch_size=16, learning_rate=0.03),
)
