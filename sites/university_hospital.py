"""A university hospital: the most even mix of all."""

from fedpdc_med.hospitals import HospitalSite, LocalSettings, Phantoms, Scanner

SITE = HospitalSite(
    name="university-hospital",
    title="University Hospital",
    films=Phantoms(
        case_mix={"normal": 90, "pneumonia": 80, "covid-19": 60, "tuberculosis": 40},
        scanner=Scanner(model="university DX", modality="DX", bits=16, noise=0.01, ap_share=0.25),
    ),
    settings=LocalSettings(epochs=1, batch_size=16, learning_rate=0.03),
)
