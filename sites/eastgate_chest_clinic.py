"""A chest clinic that follows tuberculosis."""

from fedpdc_med.hospitals import HospitalSite, LocalSettings, Phantoms, Scanner

SITE = HospitalSite(
    name="eastgate-chest-clinic",
    title="Eastgate Chest Clinic",
    films=Phantoms(
        case_mix={"normal": 40, "pneumonia": 20, "covid-19": 4, "tuberculosis": 140},
        scanner=Scanner(
            model="eastgate CR",
            modality="CR",
            bits=12,
            photometric="MONOCHROME1",
            exposure=0.05,
            noise=0.02,
            compressed=True,
            rescale=(0.5, -100.0),
        ),
    ),
    settings=LocalSettings(epochs=1, batch_size=16, learning_rate=0.03),
)
