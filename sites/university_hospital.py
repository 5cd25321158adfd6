"""A university hospital: the most even mix of all."""

from fedpdc_med.imaging.hospital import HospitalSite, LocalSettings, Phantoms, Scanner

SITE = HospitalSite(
    name="university-hospital",
    title="University Hospital",
    films=Phantoms(
        case_mix={"normal": 60, "pneumonia": 50, "covid-19": 40, "tuberculosis": 20},
        scanner=Scanner(
            model="university DX", modality="DX", bits=16, noise=0.01, rescale=(0.5, -100.0), ap_share=0.25
        ),
    ),
    settings=LocalSettings(epochs=2, batch_size=16, learning_rate=0.03),
)
